"""Where questions come from, and one record as it stands there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class QuestionSource:
    """Where questions come from (config `questions`): a file, or a Hugging Face dataset.

    `dataset` is an id on the hub, a folder of data files, or a folder made by `save_to_disk`.
    `columns` maps our field to a column of the source.
    """

    file: str | None = None
    dataset: str | None = None
    dataset_name: str | None = None
    dataset_revision: str | None = None
    split: str = "test"
    columns: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None


@dataclass(frozen=True)
class SourceRow:
    """One record of a source: its place for people, its number counted from 1, and its fields."""

    where: str
    number: int
    fields: Mapping[str, Any]

"""Questions of a Hugging Face dataset: on the hub, or in a local folder."""

from pathlib import Path

import datasets

from refork.errors import ReforkError, allowed_names
from refork.tasks.source import QuestionSource, SourceRow

SAVED = ("dataset_dict.json", "state.json")
"""Files that tell a folder made by `save_to_disk` from a folder of data files."""


def read_dataset(source: QuestionSource) -> list[SourceRow]:
    """Load one split of a dataset as rows.

    Raises
    ------
    ReforkError
        There is no such dataset, configuration, revision or split, or it cannot be loaded.
    """
    name = str(source.dataset)
    try:
        loaded = _load(name, source)
    # What `datasets` raises for a missing dataset, file, split, configuration or connection.
    except (datasets.exceptions.DatasetsError, OSError, ValueError, RuntimeError) as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        raise ReforkError(f"questions.dataset: {name}: {error}{cause}") from error
    if source.limit is not None:
        loaded = loaded.select(range(min(source.limit, len(loaded))))
    return [
        SourceRow(f"{name}[{source.split}]: row {number}", number, fields)
        for number, fields in enumerate(loaded, 1)
    ]


def _load(name: str, source: QuestionSource) -> datasets.Dataset:
    if not any((Path(name) / marker).is_file() for marker in SAVED):
        return datasets.load_dataset(
            name, name=source.dataset_name, split=source.split, revision=source.dataset_revision
        )
    saved = datasets.load_from_disk(name)
    if isinstance(saved, datasets.Dataset):
        return saved
    if source.split not in saved:
        raise ReforkError(
            f"questions.split: {name} has no split {source.split!r}; "
            + allowed_names(source.split, saved)
        )
    return saved[source.split]

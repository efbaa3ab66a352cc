"""Studies of the small config, with their locks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.studies import CONFIG, LOCKED, Studies
from refork.study.loading import Study, load_study, merge


@pytest.fixture
def study_of() -> Studies:
    """Make a study of the small config and overrides."""

    def make(**overrides: Any) -> Study:
        return load_study(merge(CONFIG, overrides))

    return make


@pytest.fixture
def lock_of() -> Callable[[Study], dict[str, Any]]:
    """Make a lock in which every variant points at the same things."""
    return lambda study: {"variants": dict.fromkeys(study.variants, LOCKED)}


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

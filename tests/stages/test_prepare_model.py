"""The stage `prepare_model`: the model folder that its record asks for."""

from dataclasses import asdict
from pathlib import Path

import pytest

from refork.engines.model_source.source import ModelSource, source_digest
from refork.errors import ReforkError
from refork.stages.prepare_model import prepare_model


def test_makes_the_locked_model(tmp_path: Path) -> None:
    source = ModelSource()
    stage = {
        "settings": {"model": asdict(source)},
        "lock": {"model": {"digest": source_digest(source)}},
    }
    facts = prepare_model(stage, tmp_path / "model")
    assert facts["digest"] == source_digest(source)
    assert (tmp_path / "model/tokenizer.json").is_file()


def test_refuses_another_model(tmp_path: Path) -> None:
    stage = {"settings": {"model": asdict(ModelSource())}, "lock": {"model": {"digest": "other"}}}
    with pytest.raises(ReforkError, match="refork lock"):
        prepare_model(stage, tmp_path / "model")
    assert not (tmp_path / "model").exists()

"""The record of a choice, written and read."""

import json
from pathlib import Path
from typing import Any

import pytest

from refork.data.files import write_json
from refork.data.tuning_record import (
    CandidateScore,
    LeftOut,
    RolloutScore,
    TuningRecord,
    read_tuning,
)
from refork.errors import ReforkError


def record() -> TuningRecord:
    on_rollout = RolloutScore(
        question_id="a",
        rollout=0,
        draws=40,
        chosen={"penalty": 8.0, "cost": "l2"},
        nats_per_draw=-0.5,
        reason=None,
    )
    return TuningRecord(
        estimator="full:penalty=8",
        why="given",
        how="full:penalty=8 is given by the config",
        folds=5,
        candidates=[
            CandidateScore(
                estimator="full", nats_per_draw=-0.5, reason=None, rollouts=[on_rollout]
            ),
            CandidateScore(estimator="raw", nats_per_draw=None, reason="no draws", rollouts=[]),
        ],
        left_out=[LeftOut(question_id="b", rollout=1, reason="too short")],
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    write_json(path, record().document())
    assert read_tuning(path) == record()


def spoiled(**changed: Any) -> dict[str, Any]:
    document = record().document()
    document["candidates"][0] |= changed
    return document


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (spoiled(nats_per_draw=None), r"candidates\.0: .*a score or the reason"),
        (spoiled(reason="both"), r"candidates\.0: .*a score or the reason"),
        (spoiled(nats_per_draw="x"), r"candidates\.0\.nats_per_draw: "),
        (spoiled(score=1), r"candidates\.0\.score: Extra inputs"),
        (record().document() | {"why": "guessed"}, "why: Input should be 'given' or 'auto'"),
        (record().document() | {"folds": 1}, "folds: Input should be greater"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, document: Any, words: str) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ReforkError, match=words):
        read_tuning(path)


def test_an_absent_record(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match=r"tuning\.json: no such file"):
        read_tuning(tmp_path / "tuning.json")

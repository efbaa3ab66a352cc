"""Real-looking completions, each with its right outcome."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from refork.tasks.graders import GradingSettings, grade
from refork.tasks.questions import Question

TABLE = yaml.safe_load((Path(__file__).parent / "completions.yaml").read_text(encoding="utf-8"))


def _question(name: str) -> Question:
    record = TABLE["questions"][name]
    choices = record.get("choices")
    return Question(
        name, record["kind"], name, record["answer"], None if choices is None else tuple(choices)
    )


@pytest.mark.parametrize(
    "completion", TABLE["completions"], ids=lambda row: f"{row['to']}: {row['text'][:50]!r}"
)
def test_completion_has_its_outcome(completion: dict[str, Any]) -> None:
    outcome = grade(
        completion["text"],
        _question(completion["to"]),
        GradingSettings(timeout=0.5),
        finish_reason=completion.get("finish", "stop"),
        opened=completion.get("opened", False),
    )
    assert outcome == completion["outcome"]


def test_the_table_is_large_enough() -> None:
    assert len(TABLE["completions"]) >= 60

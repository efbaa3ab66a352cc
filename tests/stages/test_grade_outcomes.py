"""Stage grade_outcomes: whole completions of rollouts and continuations."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import transformers

from helpers.tiny_tokenizer import write_tokenizer
from refork.data.schemas import CONTINUATIONS, OUTCOMES, PIVOTS, QUESTIONS, ROLLOUTS
from refork.errors import ReforkError
from refork.stages.grade_outcomes import grade_outcomes
from refork.study.config import Grading

PROMPT = "What do bees make?\n"
ROLLOUT = "The answer is (C)"
PIVOT = ROLLOUT.index("C")


def stage(**grading: Any) -> dict[str, Any]:
    return {"settings": {"grading": Grading(**grading).model_dump()}}


class Study:
    """One question, one rollout, one pivot: its tables, made from texts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_tokenizer(folder)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.prompt = PROMPT
        self.key: dict[str, Any] = {"question_id": "bees", "rollout": 0}

    def ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text))

    def questions(self) -> pa.Table:
        row = {
            **self.key,
            "kind": "choice",
            "question": PROMPT,
            "choices": ["milk", "bread", "honey"],
            "answer": "C",
            "messages": "[]",
            "prompt_token_ids": self.ids(self.prompt),
        }
        return pa.Table.from_pylist([row], QUESTIONS)

    def rollouts(self, text: str = ROLLOUT, finish_reason: str = "stop") -> pa.Table:
        tokens = self.ids(text)
        row = {
            **self.key,
            "seed": 1,
            "prompt_token_ids": self.ids(self.prompt),
            "token_ids": tokens,
            "logprobs": [0.0] * len(tokens),
            "top_token_ids": [[token] for token in tokens],
            "top_logprobs": [[0.0] for _ in tokens],
            "finish_reason": finish_reason,
        }
        return pa.Table.from_pylist([row], ROLLOUTS)

    @property
    def position(self) -> int:
        return len(self.ids(self.prompt)) + PIVOT

    def pivots(self) -> pa.Table:
        row = {
            **self.key,
            "position": self.position,
            "margin": 0.1,
            "actual_token": self.ids("C")[0],
            "alt_token": self.ids("B")[0],
            "actual_logprob": -0.1,
            "alt_logprob": -0.2,
        }
        return pa.Table.from_pylist([row], PIVOTS)

    def continuation(self, arm: str, draw: int | None, text: str, **changed: Any) -> dict[str, Any]:
        return {
            **self.key,
            "position": self.position,
            "pass": "exact",
            "arm": arm,
            "draw": draw,
            "seed": 1,
            "state": "snapshot",
            "token_ids": self.ids(text),
            "finish_reason": "stop",
            "first_logprob": None,
            "cached_tokens": 0,
            "recomputed_tokens": 0,
            "fidelity": None,
            **changed,
        }

    def grade(self, *rows: dict[str, Any], **grading: Any) -> list[dict[str, Any]]:
        tables = [pa.Table.from_pylist([row], CONTINUATIONS) for row in rows]
        outcomes = grade_outcomes(
            stage(**grading),
            self.questions(),
            self.rollouts(),
            self.pivots(),
            tables,
            model_folder=self.folder,
        )
        assert outcomes.schema == OUTCOMES
        graded: list[dict[str, Any]] = outcomes.to_pylist()
        return graded


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def test_the_whole_completion_is_graded(study: Study) -> None:
    base, actual, alt, later, cut = study.grade(
        study.continuation("actual", 0, ")<|end|>"),
        study.continuation("alt", 0, ")<|end|>"),
        study.continuation("alt", 1, "). No, wait. The answer is C.<|end|>"),
        study.continuation("actual", 1, ")", finish_reason="length"),
    )
    assert base == {
        **study.key,
        **dict.fromkeys(("position", "pass", "arm", "draw")),
        "outcome": "C",
        "correct": True,
    }
    assert actual == {
        **study.key,
        "position": study.position,
        "pass": "exact",
        "arm": "actual",
        "draw": 0,
        "outcome": "C",
        "correct": True,
    }
    assert (alt["outcome"], alt["correct"]) == ("B", False)
    assert (later["outcome"], later["correct"]) == ("C", True)
    assert (cut["outcome"], cut["correct"]) == ("truncated", False)


def test_probes_are_not_graded(study: Study) -> None:
    assert len(study.grade(study.continuation("actual", None, ")"))) == 1


def test_a_shard_may_be_empty(study: Study) -> None:
    questions, rollouts, pivots = (schema.empty_table() for schema in (QUESTIONS, ROLLOUTS, PIVOTS))
    outcomes = grade_outcomes(stage(), questions, rollouts, pivots, [], model_folder=study.folder)
    assert outcomes.equals(OUTCOMES.empty_table())


def test_a_prompt_that_opens_the_think_part(study: Study) -> None:
    assert study.grade()[0]["outcome"] == "C"
    study.prompt = PROMPT + "<think>\n"
    assert study.grade()[0]["outcome"] == "other"
    assert study.grade(think_end="")[0]["outcome"] == "C"
    study.prompt = PROMPT + "<think>\n\n</think>\n\n"
    assert study.grade()[0]["outcome"] == "C"


def test_think_marks_that_are_special_tokens(study: Study) -> None:
    rollouts = study.rollouts("<think>The answer is A.</think>(B)<|end|>")
    pivots = PIVOTS.empty_table()
    outcomes = grade_outcomes(
        stage(), study.questions(), rollouts, pivots, [], model_folder=study.folder
    )
    assert outcomes["outcome"].to_pylist() == ["B"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"position": 3}, "question bees, rollout 0: a continuation of arm 'alt' at position 3"),
        ({"rollout": 5}, "question bees, rollout 5: a continuation of arm 'alt'"),
    ],
)
def test_a_continuation_without_its_pivot_is_named(
    study: Study, changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(ReforkError, match=words):
        study.grade(study.continuation("alt", 0, ")", **changed))


def test_missing_rollouts_and_questions_are_named(study: Study) -> None:
    questions, rollouts, pivots = study.questions(), study.rollouts(), study.pivots()
    with pytest.raises(ReforkError, match="bees, rollout 0: position .* without its rollout"):
        grade_outcomes(stage(), questions, rollouts[:0], pivots, [], model_folder=study.folder)
    with pytest.raises(ReforkError, match="bees, rollout 0: no such row"):
        grade_outcomes(stage(), questions[:0], rollouts, pivots, [], model_folder=study.folder)

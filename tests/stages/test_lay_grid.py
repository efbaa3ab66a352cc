"""From rollouts to the grids of their curves."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from refork.data.schemas import GRID, ROLLOUTS
from refork.errors import ReforkError
from refork.stages.lay_grid import lay_grid, questions_with_curves

PROMPT = [90, 91, 92]
CURVES: dict[str, Any] = {
    "rollouts": 1,
    "grid": "tokens",
    "stride": 1,
    "branches": "mixture",
    "min_probability": 0.05,
    "max_branches": 10,
    "skip": True,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
}
CERTAIN = [-0.001, -7.0]
OPEN = [-0.6931472, -1.3862944]


def rollout(question: str, number: int, *tokens: int, open_at: tuple[int, ...] = ()) -> Any:
    """Make a rollout that drew the most probable token everywhere, always before token + 1."""
    logprobs = [OPEN if at in open_at else CERTAIN for at in range(len(tokens))]
    return {
        "question_id": question,
        "rollout": number,
        "seed": 1,
        "prompt_token_ids": PROMPT,
        "token_ids": tokens,
        "logprobs": [best for best, _ in logprobs],
        "top_token_ids": [[token, token + 1] for token in tokens],
        "top_logprobs": logprobs,
        "finish_reason": "stop",
    }


def grid(
    rows: list[Any],
    question_ids: tuple[str, ...] = ("a",),
    folder: Path = Path("no folder"),
    **changed: Any,
) -> list[dict[str, Any]]:
    stage = {"settings": {"curves": CURVES | changed}}
    table = lay_grid(stage, pa.Table.from_pylist(rows, ROLLOUTS), folder, question_ids)
    assert table.schema == GRID
    laid: list[dict[str, Any]] = table.to_pylist()
    return laid


def places(rows: list[dict[str, Any]], column: str) -> list[int]:
    return [row["position"] for row in rows if row[column]]


def test_the_first_rollouts_of_the_chosen_questions_have_a_row_a_token() -> None:
    rollouts = [rollout(name, number, 5, 6) for name in "abc" for number in range(3)]
    rows = grid(rollouts, ("c", "a"), rollouts=2)
    keys = [(row["question_id"], row["rollout"], row["position"]) for row in rows]
    assert keys == [
        (name, number, position) for name in "ac" for number in (0, 1) for position in (3, 4)
    ]
    assert grid(rollouts, ()) == []
    assert grid([rollout("a", 0)]) == []


@pytest.mark.parametrize(
    ("asked", "chosen"), [(0, []), (2, ["b", "a"]), (9, ["b", "a", "c"]), (None, ["b", "a", "c"])]
)
def test_the_first_so_many_questions_in_the_order_of_the_study(
    asked: int | None, chosen: list[str]
) -> None:
    questions = pa.table({"question_id": ["b", "b", "a", "a", "c", "c"]})
    stage = {"settings": {"curves": CURVES | {"questions": asked}}}
    assert questions_with_curves(stage, questions) == chosen


def test_branches_and_what_they_leave_out() -> None:
    rows = grid([rollout("a", 0, 5, 6, open_at=(0,))])
    assert [row["tokens"] for row in rows] == [[5, 6], [6]]
    assert rows[0]["probabilities"] == pytest.approx([2 / 3, 1 / 3])
    assert rows[1]["probabilities"] == [1.0]
    assert [row["dropped"] for row in rows] == pytest.approx([0.25, 0.001], abs=1e-4)


def test_branches_are_of_the_distribution_that_continuations_are_drawn_from() -> None:
    one = [rollout("a", 0, 5, open_at=(0,))]
    assert grid(one, temperature=0.5, top_k=2)[0]["probabilities"] == pytest.approx([0.8, 0.2])
    assert grid(one, top_p=0.4)[0]["tokens"] == [5]
    assert grid(one, top_k=1)[0]["tokens"] == [5]
    assert grid(one, max_branches=1)[0]["tokens"] == [5]
    assert grid(one, min_probability=0.3)[0]["tokens"] == [5]


def test_every_so_many_tokens_from_the_first_generated_one_on() -> None:
    rows = grid([rollout("a", 0, *range(8), open_at=(3,))], stride=3)
    assert [row["position"] for row in rows] == list(range(3, 11))
    assert places(rows, "on_grid") == [3, 6, 9]
    assert places(rows, "drawn") == [3, 6, 9]


def test_no_draws_where_the_next_position_has_them_and_nothing_lies_between() -> None:
    rollouts = [rollout("a", 0, *range(6), open_at=(1, 2))]
    rows = grid(rollouts)
    assert places(rows, "on_grid") == list(range(3, 9))
    assert places(rows, "drawn") == [4, 5, 8]  # the last has no next one
    assert places(grid(rollouts, skip=False), "drawn") == list(range(3, 9))


def test_sentences_start_at_their_first_tokens(tokenizer_folder: Path) -> None:
    text = "It is 3.\n\nIs it? It is 4 €. Yes."
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    token_ids = tokenizer.encode(text).ids
    rows = grid([rollout("a", 0, *token_ids)], folder=tokenizer_folder, grid="sentences")
    starts = [text[:place].encode() for place in map(text.index, ("It", "Is", "It is 4", "Yes"))]
    assert places(rows, "on_grid") == [len(PROMPT) + len(start) for start in starts]
    assert places(rows, "drawn") == places(rows, "on_grid")
    assert len(rows) == len(text.encode())


def test_only_sentences_need_a_tokenizer(tmp_path: Path) -> None:
    assert len(grid([rollout("a", 0, 5)], folder=tmp_path)) == 1
    with pytest.raises(ReforkError, match=r"tokenizer\.json: no such file"):
        grid([rollout("a", 0, 5)], folder=tmp_path, grid="sentences")

"""From tables to the samples that estimators take."""

from typing import Any

import pyarrow as pa
import pytest

from helpers.curve_tables import grid_row
from refork.data.schemas import DRAWS, GRID
from refork.errors import ReforkError
from refork.stages.curve_samples import rollout_draws


def key(question: str, position: int) -> dict[str, Any]:
    return {"question_id": question, "rollout": 0, "position": position}


def grid(question: str = "a") -> list[dict[str, Any]]:
    """Make five tokens from position 20 on, the grid at 20, 22 and 23; 22 is not drawn."""
    return [
        grid_row(key(question, 20), [1, 2], [0.75, 0.25]) | {"dropped": 0.1},
        grid_row(key(question, 21), [3, 4], [0.5, 0.5], on_grid=False, drawn=False),
        grid_row(key(question, 22), [5], [1.0], drawn=False),
        grid_row(key(question, 23), [6, 7], [0.9, 0.1]),
        grid_row(key(question, 24), [8], [1.0], on_grid=False, drawn=False),
    ]


def draw(
    question: str, position: int, number: int, outcome: str, branch: int = 0, weight: float = 1.0
) -> dict[str, Any]:
    of = {"branch": branch, "draw": number, "outcome": outcome, "weight": weight, "length": 3}
    return key(question, position) | of


def draws(question: str = "a") -> list[dict[str, Any]]:
    return [
        draw(question, 23, 1, "truncated"),
        draw(question, 20, 1, "other", branch=1),
        draw(question, 20, 0, "C"),
        draw(question, 23, 0, "B"),
    ]


def tables(grid_rows: list[Any], draw_rows: list[Any]) -> tuple[pa.Table, pa.Table]:
    return pa.Table.from_pylist(grid_rows, GRID), pa.Table.from_pylist(draw_rows, DRAWS)


def test_a_sample_counts_from_the_first_generated_token() -> None:
    (made,), left_out = rollout_draws(*tables(grid(), draws()))
    assert left_out == []
    assert (made.key, made.first) == (("a", 0), 20)
    assert made.outcomes == ("B", "C", "other", "truncated")
    assert made.positions.tolist() == [20, 22, 23]
    sample = made.sample
    assert sample.positions.tolist() == [0, 2, 3]
    assert sample.place.tolist() == [0, 0, 2, 2]
    assert sample.branch.tolist() == [0, 1, 0, 0]
    assert sample.outcome.tolist() == [1, 2, 0, 3]
    assert sample.base_probability.tolist() == [0.75, 0.5, 1.0, 0.9]
    assert sample.dropped.tolist() == [0.1, 0.0, 0.0, 0.0]


def test_rollouts_stand_in_the_order_of_the_grid_wherever_their_rows_are() -> None:
    both = tables(grid("b") + grid("a"), [*draws("a"), *draws("b")])
    mixed = both[0].take([5, 0, 6, 1, 7, 2, 8, 3, 9, 4]), both[1].take([6, 1, 4, 0, 3, 7, 2, 5])
    assert [one.key for one in rollout_draws(*both)[0]] == [("b", 0), ("a", 0)]
    found = rollout_draws(*mixed)[0]
    assert [one.key for one in found] == [("a", 0), ("b", 0)]
    for one in found:
        assert one.sample.outcome.tolist() == [1, 2, 0, 3]


def test_a_rollout_that_is_too_short_is_left_out() -> None:
    short = [row for row in draws("b") if row["position"] == 20]
    made, left_out = rollout_draws(*tables(grid("b") + grid("a"), short + draws("a")))
    assert [one.key for one in made] == [("a", 0)]
    assert [(one.question_id, one.rollout) for one in left_out] == [("b", 0)]
    assert left_out[0].reason.startswith("positions of the grid with draws: 1; a curve needs two")
    made, left_out = rollout_draws(*tables(grid("b"), []))
    assert made == []
    assert left_out[0].reason.startswith("positions of the grid with draws: 0;")


def test_no_rollouts() -> None:
    assert rollout_draws(*tables([], [])) == ([], [])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (draw("b", 20, 0, "A"), "question 'b', rollout 0: draws without a grid"),
        (draw("a", 21, 0, "A"), "question 'a', rollout 0, position 21: draws off the grid"),
        (draw("a", 25, 0, "A"), "question 'a', rollout 0, position 25: draws off the grid"),
        (draw("a", 20, 2, "A", weight=2.0), "question 'a', rollout 0: weight: those of position"),
    ],
)
def test_what_does_not_fit_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ReforkError, match=words):
        rollout_draws(*tables(grid(), [*draws(), more]))


def test_rare_outcomes_join_the_others() -> None:
    many = [draw("a", 20, number, "A") for number in range(150)]
    many += [draw("a", 20, 150, "rare"), draw("a", 20, 151, "other")]
    many += [draw("a", 23, number, "A" if number else "B") for number in range(20)]
    (made,), _ = rollout_draws(*tables(grid(), many))
    assert made.outcomes == ("A", "B", "rare", "other")
    assert made.collapsed().into.tolist() == [0, 1, 2, 2]

"""From graded continuations to the draws of curves."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from helpers.curve_tables import chain_curve, draw_rows, grid_row, synthetic_chain
from refork.data.schemas import CONTINUATIONS, DRAWS, GRID, OUTCOMES
from refork.errors import ReforkError
from refork.stages.estimate_curves import estimate_curves

A20, A21, A22 = ({"question_id": "a", "rollout": 0, "position": 20 + i} for i in range(3))
B20 = {"question_id": "b", "rollout": 1, "position": 20}
GRID_ROWS = [
    grid_row(A20, [1, 2], [0.75, 0.25]),
    grid_row(A21, [3], [1.0], drawn=False),
    grid_row(A22, [4, 5], [0.5, 0.5]),
    grid_row(B20, [6], [1.0]),
]
MIXTURE = [
    (A20, 0, 0, "A", 4),
    (A20, 1, 1, "B", 2),
    (A22, 1, 0, "other", 3),
    (A22, 0, 1, "truncated", 9),
    (B20, 0, 0, "C", 1),
    (B20, 0, 1, "D", 5),
]


def pairs(draws: list[tuple[dict[str, Any], int, int, str, int]]) -> list[tuple[Any, Any]]:
    return [draw_rows(*draw[:4], length=draw[4]) for draw in draws]


def estimated(rows: list[tuple[Any, Any]], branches: str = "mixture") -> pa.Table:
    return estimate_curves(
        {"settings": {"curves": {"branches": branches}}},
        pa.Table.from_pylist(GRID_ROWS, GRID),
        pa.Table.from_pylist([graded for graded, _ in rows if graded], OUTCOMES),
        [pa.Table.from_pylist([row], CONTINUATIONS) for _, row in rows if row],
    )


def test_mixture_draws_weigh_one_each_and_stand_in_the_order_of_the_grid() -> None:
    table = estimated(pairs(MIXTURE)[::-1])
    assert table.schema == DRAWS
    assert table.to_pylist() == [
        {**key, "branch": branch, "draw": draw, "outcome": outcome, "weight": 1.0, "length": length}
        for key, branch, draw, outcome, length in MIXTURE
    ]


def test_each_branch_weighs_what_it_is_worth() -> None:
    keys = [(A20, 0), (A20, 1), (A22, 0), (A22, 1), (B20, 0)]
    rows = pairs([(key, branch, draw, "A", 1) for (key, branch), draw in product(keys, range(3))])
    table = estimated(rows, "each")
    weights = {
        (row["question_id"], row["position"], row["branch"]): row["weight"]
        for row in table.to_pylist()
    }
    assert weights == {
        ("a", 20, 0): 1.5,
        ("a", 20, 1): 0.5,
        ("a", 22, 0): 1.0,
        ("a", 22, 1): 1.0,
        ("b", 20, 0): 1.0,
    }
    assert sum(table.column("weight").to_pylist()) == table.num_rows
    assert table.column("draw").to_pylist()[:6] == [0, 0, 1, 1, 2, 2]


def test_a_branch_that_is_never_drawn_needs_no_draws() -> None:
    grid = pa.Table.from_pylist([grid_row(A20, [1, 2], [0.0, 1.0])], GRID)
    rows = pairs([(A20, 1, draw, "A", 1) for draw in range(2)])
    table = estimate_curves(
        {"settings": {"curves": {"branches": "each"}}},
        grid,
        pa.Table.from_pylist([graded for graded, _ in rows], OUTCOMES),
        [pa.Table.from_pylist([row for _, row in rows], CONTINUATIONS)],
    )
    assert table.column("weight").to_pylist() == [1.0, 1.0]


def test_outcomes_of_rollouts_and_of_other_passes_are_no_draws() -> None:
    base = {"question_id": "a", "rollout": 0, "outcome": "A", "correct": True}
    graded, continued = pairs(MIXTURE)[0]
    other = graded | {"pass": "exact", "arm": "alt"}, continued | {"pass": "exact", "arm": "alt"}
    rows = [*pairs(MIXTURE), (base, None), other]
    assert estimated(rows).equals(estimated(pairs(MIXTURE)))


def test_a_shard_without_curves() -> None:
    grid, outcomes, continued = (schema.empty_table() for schema in (GRID, OUTCOMES, CONTINUATIONS))
    stage = {"settings": {"curves": {"branches": "each"}}}
    for continuations in ([], [continued]):
        table = estimate_curves(stage, grid, outcomes, continuations)
        assert table.schema == DRAWS
        assert table.num_rows == 0


@pytest.mark.parametrize(
    ("spoil", "branches", "words"),
    [
        (lambda rows: rows[:-1], "mixture", "'b', rollout 1, position 20: 1 graded draws, 1 of"),
        (lambda rows: rows[:4], "mixture", "'b', rollout 1, position 20: 0 graded draws"),
        (lambda rows: [*rows, rows[0]], "mixture", "position 20: 3 graded draws, 2 of them diff"),
        (lambda rows: rows, "each", "position 20, branch 0: 1 graded draws, 1 of them"),
        (
            lambda rows: [(rows[0][0], None), *rows[1:]],
            "mixture",
            "position 20, draw 0: an outcome without its continuation",
        ),
        (
            lambda rows: [*rows, (None, rows[0][1] | {"draw": 2})],
            "mixture",
            "position 20, draw 2: a continuation without its outcome",
        ),
        (
            lambda rows: [*rows, (None, rows[0][1])],
            "mixture",
            "7 continuations of 6 draws: some are there twice",
        ),
        (
            lambda rows: [*rows, draw_rows(A21, 0, 0, "A")],
            "mixture",
            "where nothing is drawn: question 'a', rollout 0, position 21",
        ),
        (
            lambda rows: [*rows, draw_rows(B20, 1, 0, "A")],
            "mixture",
            "'b', rollout 1, position 20: 'branch-1' is no branch",
        ),
        (
            lambda rows: [(rows[0][0] | {"arm": "alt"}, rows[0][1]), *rows[1:]],
            "mixture",
            "position 20: 'alt' is no branch",
        ),
    ],
)
def test_what_does_not_fit_is_refused(spoil: Any, branches: str, words: str) -> None:
    with pytest.raises(ReforkError, match=words):
        estimated(spoil(pairs(MIXTURE)), branches)


def test_draws_of_branches_and_of_mixtures_have_the_same_shares(tmp_path: Path) -> None:
    chain = synthetic_chain(tmp_path)
    for branches in ("mixture", "each"):
        made = chain_curve(chain, "a", draws=400, seed=3, length=6, each=branches == "each")
        table = estimate_curves(
            {"settings": {"curves": {"branches": branches}}},
            made.grid,
            made.outcomes,
            [made.continuations],
        )
        shares = np.zeros_like(made.curve)
        place = table.column("position").to_numpy() - made.grid.column("position")[0].as_py()
        outcome = [made.labels.index(label) for label in table.column("outcome").to_pylist()]
        np.add.at(shares, (place, outcome), table.column("weight").to_numpy())
        shares /= shares.sum(axis=1, keepdims=True)
        assert np.abs(shares - made.curve).max() < 0.1  # four standard errors

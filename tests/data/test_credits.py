"""Alignment and pooling of credits tables."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from refork.data.credits import align_passes, pass_names, pool_credits
from refork.data.schemas import CREDITS
from refork.errors import ReforkError

PASSES = ("exact", "replica", "refeed")


def row(question: str, position: int, name: str, credit: float, **more: Any) -> dict[str, Any]:
    key = {"question_id": question, "rollout": 0, "position": position, "pass": name}
    return key | {"margin": position / 100, "credit": credit} | more


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), CREDITS)


PIVOTS = (("a", 5), ("a", 9), ("b", 5))


def three_passes() -> list[dict[str, Any]]:
    return [
        row(question, position, name, (number + 1) * (place + 1) / 16)
        for number, name in enumerate(PASSES)
        for place, (question, position) in enumerate(PIVOTS)
    ]


def test_passes_share_one_order() -> None:
    rows = three_passes()
    aligned = align_passes(table(*rows), PASSES)
    assert aligned.problem.tolist() == [0, 0, 1]
    assert aligned.passes["refeed"].credits.value.tolist() == [3 / 16, 6 / 16, 9 / 16]
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    again = align_passes(table(*mixed), PASSES)
    for name in PASSES:
        there = again.passes[name].credits.value
        assert sorted(there) == aligned.passes[name].credits.value.tolist()
        assert there.tolist() == [
            value * (PASSES.index(name) + 1) for value in again.passes["exact"].credits.value
        ]


def test_counts_outweigh_the_floating_credit() -> None:
    counts = {"right_actual": 1, "draws_actual": 4, "right_alt": 1, "draws_alt": 4}
    rows = [row("a", 1, name, 1e-17, **counts) for name in PASSES]
    assert align_passes(table(*rows), PASSES).passes["exact"].credits.sign.tolist() == [0]


def test_names_in_order_of_appearance() -> None:
    assert pass_names(table(*three_passes())) == list(PASSES)


def test_of_a_pivot_in_two_runs_the_first_is_taken() -> None:
    first = table(*three_passes())
    second = table(
        *[row("a", 5, name, -1.0) for name in PASSES], *[row("c", 1, name, 0.5) for name in PASSES]
    )
    pooled = align_passes(pool_credits([first, second]), PASSES)
    assert pooled.passes["exact"].credits.value.tolist() == [1 / 16, 2 / 16, 3 / 16, 0.5]
    assert pool_credits([first]).equals(first)


def test_a_pass_that_is_not_there() -> None:
    with pytest.raises(ReforkError, match="no pass named 'shuffled'; the passes are: exact, repl"):
        align_passes(table(*three_passes()), ("exact", "shuffled"))


@pytest.mark.parametrize("missing", [0, 8])
def test_a_pass_that_lacks_a_pivot(missing: int) -> None:
    rows = three_passes()
    gone = rows.pop(missing)
    words = f"pass '{gone['pass']}' lacks 1 of .* question '{gone['question_id']}', rollout 0"
    with pytest.raises(ReforkError, match=words):
        align_passes(table(*rows), PASSES)


def test_a_pivot_twice_in_a_pass() -> None:
    rows = three_passes()
    with pytest.raises(
        ReforkError, match="'exact' holds a pivot twice: question 'a', rollout 0, po"
    ):
        align_passes(table(*rows, rows[1]), PASSES)


def test_a_credit_that_is_no_number() -> None:
    rows = three_passes()
    rows[4]["credit"] = float("nan")
    with pytest.raises(
        ReforkError, match="not a finite number: question 'a', rollout 0, position 9"
    ):
        align_passes(table(*rows), PASSES)


def test_a_table_without_pivots_aligns_to_nothing() -> None:
    aligned = align_passes(CREDITS.empty_table(), PASSES)
    assert len(aligned.problem) == len(aligned.margin) == 0
    assert set(aligned.passes) == set(PASSES)

"""Stage estimate_curves: from graded continuations to the draws of outcome curves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refork.data.pivot_keys import name_pivot, number_pivots
from refork.data.schemas import CONTINUATIONS, DRAWS, PIVOT_KEY
from refork.errors import ReforkError

CURVE = "curve"
"""Name of the pass whose continuations are draws of curves."""
BRANCH = "branch-"
"""What the arm of a curve's continuation starts with; the branch's number follows."""

Integers = NDArray[np.int64]

_KEY = [field.name for field in PIVOT_KEY]


def estimate_curves(
    stage: Mapping[str, Any],
    grid: pa.Table,
    outcomes: pa.Table,
    continuations: Iterable[pa.Table],
) -> pa.Table:
    """Collect the draws of one shard, in the order of the grid, then of draws and branches.

    A mixture draw has weight 1. Where every branch has its own draws, a draw weighs what its branch
    is worth among the others, so that the weights of a position add to its number of draws.

    Parameters
    ----------
    stage
        The record that was hashed.
    grid, outcomes
        Tables of `data.schemas`, of the shard; outcomes of other passes are passed over.
    continuations
        The shard's tables of all draw blocks (`data.schemas.CONTINUATIONS`).

    Returns
    -------
    pyarrow.Table
        `data.schemas.DRAWS`.

    Raises
    ------
    ReforkError
        A continuation has no outcome or an outcome no continuation, one stands where nothing is to
        be drawn, or a position lacks draws that others have.
    """
    each = stage["settings"]["curves"]["branches"] == "each"
    graded = _curve_draws(outcomes, "outcome")
    drawn = pa.concat_tables([_lengths(table) for table in continuations] or [_lengths(None)])
    branches = _Branches.of(grid.filter(grid.column("drawn")))
    of_outcome, of_continuation = branches.places([graded, drawn])
    _refuse_gaps(branches, of_outcome, each=each)
    length = drawn.column("length").to_numpy()[_matched(of_outcome, of_continuation)]
    columns = {
        **{name: graded.column(name) for name in _KEY},
        "branch": of_outcome.branch,
        "draw": graded.column("draw"),
        "outcome": graded.column("outcome"),
        "weight": branches.weights(of_outcome) if each else np.ones(graded.num_rows),
        "length": length,
    }
    order = np.lexsort((of_outcome.branch, of_outcome.draw, of_outcome.row))
    return pa.table(columns).take(pa.array(order)).select(DRAWS.names).cast(DRAWS)


@dataclass(frozen=True)
class _Places:
    """Where the draws of a table stand; shape (draws,) each."""

    table: pa.Table
    row: Integers  # of the grid's drawn positions
    branch: Integers  # of the position
    slot: Integers  # number of the branch among those of all positions
    draw: Integers


@dataclass(frozen=True)
class _Branches:
    """The drawn positions of a grid and their branches, numbered through."""

    grid: pa.Table
    first: Integers  # slot of the first branch of every position, then the number of slots
    probability: NDArray[np.float64]  # of every slot

    @classmethod
    def of(cls, grid: pa.Table) -> "_Branches":
        lists = grid.column("probabilities").combine_chunks()
        first = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())])
        return cls(grid, first.astype(np.int64), lists.flatten().to_numpy())

    def places(self, tables: list[pa.Table]) -> list[_Places]:
        """Find the position and the branch of every draw."""
        there, *here = number_pivots(self.grid, *tables)
        order = np.argsort(there)
        return [
            self._places(table, order, there, own) for table, own in zip(tables, here, strict=True)
        ]

    def _places(self, table: pa.Table, order: Integers, there: Integers, here: Integers) -> _Places:
        place = np.searchsorted(there[order], here)
        known = place < len(order)
        row = np.zeros_like(here)
        row[known] = order[place[known]]
        known[known] = there[row[known]] == here[known]
        if not known.all():
            stray = name_pivot(table, int(np.argmin(known)))
            raise ReforkError(f"a draw stands where nothing is drawn: {stray}")
        arms = table.column("arm").combine_chunks().dictionary_encode()
        numbers = [_number(arm) for arm in arms.dictionary.to_pylist()]
        branch = np.array(numbers, np.int64)[arms.indices.to_numpy()]
        outside = (branch < 0) | (branch >= np.diff(self.first)[row])
        if outside.any():
            at = int(np.argmax(outside))
            arm = table.column("arm")[at].as_py()
            raise ReforkError(f"{name_pivot(table, at)}: {arm!r} is no branch of the grid there")
        draw = table.column("draw").to_numpy().astype(np.int64)
        return _Places(table, row, branch, self.first[row] + branch, draw)

    def weights(self, places: _Places) -> NDArray[np.float64]:
        """Weigh each draw by its branch's probability × draws of the position ÷ of the branch."""
        of_position = np.bincount(places.row, minlength=len(self.first) - 1)[places.row]
        of_branch = np.bincount(places.slot, minlength=len(self.probability))[places.slot]
        weights: NDArray[np.float64] = self.probability[places.slot] * of_position / of_branch
        return weights


def _curve_draws(table: pa.Table, *columns: str) -> pa.Table:
    """Keep the draws of curves, and of their columns what names them and those given."""
    of_curve = pc.and_(pc.equal(table.column("pass"), CURVE), pc.is_valid(table.column("draw")))
    return table.select([*_KEY, "arm", "draw", *columns]).filter(of_curve.fill_null(False))


def _lengths(continuations: pa.Table | None) -> pa.Table:
    """Give the lengths of continuations without their tokens, which need not be kept."""
    table = CONTINUATIONS.empty_table() if continuations is None else continuations
    drawn = _curve_draws(table, "token_ids")
    length = pc.list_value_length(drawn.column("token_ids"))
    return drawn.drop_columns(["token_ids"]).append_column("length", length)


def _number(arm: str) -> int:
    """Read the number of a branch; -1 where the arm names none."""
    number = arm.removeprefix(BRANCH)
    return int(number) if number != arm and number.isdecimal() else -1


def _codes(places: _Places, draws: int) -> Integers:
    return places.slot * draws + places.draw


def _matched(outcomes: _Places, continuations: _Places) -> Integers:
    """Find the continuation of every outcome; each has the other."""
    draws = 1 + max(int(one.draw.max(initial=0)) for one in (outcomes, continuations))
    wanted, there = (_codes(one, draws) for one in (outcomes, continuations))
    order = np.argsort(there)
    for one, codes, others, what in (
        (outcomes, wanted, there, "an outcome without its continuation"),
        (continuations, there, wanted, "a continuation without its outcome"),
    ):
        missing = ~np.isin(codes, others)
        if missing.any():
            at = int(np.argmax(missing))
            raise ReforkError(f"{name_pivot(one.table, at)}, draw {one.draw[at]}: {what}")
    if len(there) != len(wanted):
        raise ReforkError(
            f"{len(there)} continuations of {len(wanted)} draws: some are there twice"
        )
    matched: Integers = order[np.searchsorted(there[order], wanted)]
    return matched


def _refuse_gaps(branches: _Branches, places: _Places, *, each: bool) -> None:
    """Refuse a position or branch whose draws are not 0, 1, … up to the last of all.

    A branch that is never drawn needs none of its own.
    """
    group, size = places.row, branches.grid.num_rows
    needed = np.ones(size, dtype=np.bool_)
    if each:
        group, size = places.slot, len(branches.probability)
        needed = branches.probability > 0
    wanted = max(int(places.draw.max(initial=0)) + 1, 1)
    different = np.bincount(np.unique(group * wanted + places.draw) // wanted, minlength=size)
    total = np.bincount(group, minlength=size)
    wrong = (total != different) | ((different != wanted) & (needed | (total > 0)))
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(branches.first, at, side="right")) - 1 if each else at
        of = f", branch {at - branches.first[row]}" if each else ""
        raise ReforkError(
            f"{name_pivot(branches.grid, row)}{of}: {total[at]} graded draws, {different[at]} of "
            f"them different; {wanted} are wanted"
        )

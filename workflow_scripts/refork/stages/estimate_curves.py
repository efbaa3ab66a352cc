"""Stage estimate_curves: from graded continuations to the draws of outcome curves."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from refork.data.pivot_keys import name_pivot
from refork.data.schemas import DRAWS, PIVOT_KEY
from refork.errors import ReforkError
from refork.stages.branch_draws import BranchDraws, GridBranches, Narrow


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
        The shard's tables of all draw blocks (`data.schemas.CONTINUATIONS`), one in memory a time.

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
    branches = GridBranches.of(grid)
    graded = branches.collect([outcomes], "outcome", pa.string())
    drawn = branches.collect(continuations, "token_ids", pa.int32())
    _refuse_gaps(branches, graded, each=each)
    length = drawn.values.to_numpy()[_matched(branches, graded, drawn)]
    order = np.lexsort((graded.branch, graded.draw, graded.row))
    key = branches.grid.select([field.name for field in PIVOT_KEY]).take(graded.row[order])
    columns = {
        **dict(zip(key.column_names, key.columns, strict=True)),
        "branch": graded.branch[order],
        "draw": graded.draw[order],
        "outcome": graded.values.take(pa.array(order)),
        "weight": branches.weights(graded)[order] if each else np.ones(len(order)),
        "length": length[order],
    }
    return pa.table(columns).select(DRAWS.names).cast(DRAWS)


def _matched(branches: GridBranches, outcomes: BranchDraws, continuations: BranchDraws) -> Narrow:
    """Find the continuation of every outcome; each has the other."""
    draws = 1 + max(int(one.draw.max(initial=0)) for one in (outcomes, continuations))
    wanted, there = (branches.slots(one) * draws + one.draw for one in (outcomes, continuations))
    size = len(branches.probability) * draws
    for one, codes, others, what in (
        (outcomes, wanted, there, "an outcome without its continuation"),
        (continuations, there, wanted, "a continuation without its outcome"),
    ):
        known = np.zeros(size, dtype=np.bool_)
        known[others] = True
        missing = ~known[codes]
        if missing.any():
            at = int(np.argmax(missing))
            where = name_pivot(branches.grid, int(one.row[at]))
            raise ReforkError(f"{where}, draw {one.draw[at]}: {what}")
    if len(there) != len(wanted):
        raise ReforkError(
            f"{len(there)} continuations of {len(wanted)} draws: some are there twice"
        )
    place = np.zeros(size, dtype=np.int32)
    place[there] = np.arange(len(there), dtype=np.int32)
    matched: Narrow = place[wanted]
    return matched


def _refuse_gaps(branches: GridBranches, draws: BranchDraws, *, each: bool) -> None:
    """Refuse a position or branch whose draws are not 0, 1, … up to the last of all.

    A branch that is never drawn needs none of its own.
    """
    group, size = draws.row.astype(np.int64), branches.grid.num_rows
    needed = np.ones(size, dtype=np.bool_)
    if each:
        group, size = branches.slots(draws), len(branches.probability)
        needed = branches.probability > 0
    wanted = int(draws.draw.max(initial=0)) + 1
    times = np.bincount(group * wanted + draws.draw, minlength=size * wanted)
    times = times.reshape(size, wanted)
    total, different = times.sum(axis=1), (times > 0).sum(axis=1)
    wrong = (total != different) | ((different != wanted) & (needed | (total > 0)))
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(branches.first, at, side="right")) - 1 if each else at
        of = f", branch {at - branches.first[row]}" if each else ""
        raise ReforkError(
            f"{name_pivot(branches.grid, row)}{of}: {total[at]} graded draws, {different[at]} of "
            f"them different; {wanted} are wanted"
        )

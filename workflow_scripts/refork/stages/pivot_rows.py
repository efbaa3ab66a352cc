"""What one pass measured at every pivot, from the rows of its draws and greedy probes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refork.data.pivot_keys import name_pivot, number_pivots
from refork.data.schemas import ARMS
from refork.errors import ReforkError


@dataclass(frozen=True)
class PivotRows:
    """Rows of outcomes or continuations, each with the place of its pivot and its pass and arm.

    `pivot` is the row of the pivots table, of which there are `n_pivots`; -1 stands for a pass that
    is not asked for.
    """

    table: pa.Table
    n_pivots: int
    pivot: NDArray[np.int64]
    pass_: NDArray[np.int64]
    arm: NDArray[np.int64]

    def select(self, mask: NDArray[np.bool_]) -> "PivotRows":
        """Keep some of the rows."""
        return PivotRows(
            self.table.filter(pa.array(mask)),
            self.n_pivots,
            self.pivot[mask],
            self.pass_[mask],
            self.arm[mask],
        )

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of numbers."""
        column: NDArray[Any] = self.table.column(name).to_numpy()
        return column

    def count(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the rows of every pivot; shape (pivots,)."""
        return np.bincount(self.pivot[mask], minlength=self.n_pivots)


def place_rows(table: pa.Table, pivots: pa.Table, passes: Sequence[str]) -> PivotRows:
    """Find the pivot, the pass and the arm of every row.

    Raises
    ------
    ReforkError
        A row stands at a position that is no pivot.
    """
    there, here = number_pivots(pivots, table)
    order = np.argsort(there)
    place = np.searchsorted(there[order], here)
    pivot = order[np.minimum(place, len(order) - 1)] if len(order) else np.full_like(here, -1)
    stray = np.flatnonzero(there[pivot] != here) if len(order) else np.arange(len(here))
    if len(stray):
        raise ReforkError(f"a continuation stands at no pivot: {name_pivot(table, int(stray[0]))}")
    return PivotRows(
        table, len(there), pivot, _index_in(table, "pass", passes), _index_in(table, "arm", ARMS)
    )


def _index_in(table: pa.Table, column: str, names: Sequence[str]) -> NDArray[np.int64]:
    found = pc.index_in(table.column(column), value_set=pa.array(names, pa.string()))
    index: NDArray[np.int64] = found.fill_null(-1).to_numpy().astype(np.int64)
    return index


def keeps_state(rows: PivotRows, number: int, block_size: int) -> NDArray[np.bool_]:
    """Tell where every request of a pass took over the decode-time state, down to whole blocks."""
    of_pass = rows.pass_ == number
    kept = rows.column("cached_tokens") >= rows.column("position") // block_size * block_size
    all_kept: NDArray[np.bool_] = rows.count(of_pass & kept) == rows.count(of_pass)
    return all_kept


def probe_rows(probes: PivotRows, number: int, arm: int) -> NDArray[np.int64]:
    """Row of the probe of every pivot in one pass and arm, -1 where there is none."""
    rows = np.full(probes.n_pivots, -1, dtype=np.int64)
    there = np.flatnonzero((probes.pass_ == number) & (probes.arm == arm))
    rows[probes.pivot[there]] = there
    return rows


def compare_probes(
    probes: PivotRows, number: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Compare a pass's probes with the first pass's.

    Returns
    -------
    known, diverged, delta
        Shape (pivots,): whether both arms were probed in both passes, whether the tokens of an arm
        differ, and the largest |Δ first log-probability| over the arms (nat; NaN where unknown).
    """
    tokens = probes.table.column("token_ids").combine_chunks()
    logprob = probes.table.column("first_logprob").fill_null(np.nan).to_numpy().astype(np.float64)
    arms = range(len(ARMS))
    pairs = [(probe_rows(probes, 0, arm), probe_rows(probes, number, arm)) for arm in arms]
    known = reduce(np.logical_and, [(one >= 0) & (other >= 0) for one, other in pairs])
    diverged = np.zeros(probes.n_pivots, dtype=np.bool_)
    delta = np.full(probes.n_pivots, np.nan)
    differ = [lists_differ(tokens, one[known], other[known]) for one, other in pairs]
    apart = [np.abs(logprob[one[known]] - logprob[other[known]]) for one, other in pairs]
    diverged[known] = differ[0] | differ[1]
    delta[known] = np.maximum(apart[0], apart[1])
    return known, diverged, delta


def lists_differ(
    lists: pa.ListArray, one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell where the lists in rows `one` differ from those in rows `other`; shapes (pairs,)."""
    offsets, values = lists.offsets.to_numpy(), lists.values.to_numpy(zero_copy_only=False)
    length = np.diff(offsets)
    same = length[one] == length[other]
    n = length[one][same]
    step = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    unequal = (
        values[np.repeat(offsets[one][same], n) + step]
        != values[np.repeat(offsets[other][same], n) + step]
    )
    differ: NDArray[np.bool_] = ~same
    owner = np.repeat(np.arange(len(n)), n)
    differ[same] = np.bincount(owner[unequal], minlength=len(n)) > 0
    return differ

"""Draws of outcome curves by position and branch, as numbers."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refork.data.pivot_keys import name_pivot, number_pivots
from refork.data.schemas import BRANCH, CURVE
from refork.errors import ReforkError

Integers = NDArray[np.int64]
Narrow = NDArray[np.int32]

ROWS = 1_000_000
"""Rows whose keys are looked at together."""


@dataclass(frozen=True)
class BranchDraws:
    """Draws by where they stand; shape (draws,) each, narrow, for there may be many millions.

    Attributes
    ----------
    row
        Of the grid's drawn positions.
    branch
        Its place among the branches of the position.
    draw
        Number of the draw.
    values
        What else is known of each.
    """

    row: Narrow
    branch: Narrow
    draw: Narrow
    values: pa.ChunkedArray


@dataclass(frozen=True)
class GridBranches:
    """The drawn positions of a grid and their branches, numbered through.

    Attributes
    ----------
    grid
        Rows of `data.schemas.GRID`.
    first
        Shape (rows + 1,): slot of the first branch of every position; at last the number of slots.
    probability
        Shape (slots,).
    """

    grid: pa.Table
    first: Integers
    probability: NDArray[np.float64]

    @classmethod
    def of(cls, grid: pa.Table) -> "GridBranches":
        """Give every branch of every drawn position of a grid a number."""
        drawn = grid.filter(grid.column("drawn"))
        lists = drawn.column("probabilities").combine_chunks()
        first = np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())])
        return cls(drawn, first.astype(np.int64), lists.flatten().to_numpy())

    def collect(self, tables: Iterable[pa.Table], column: str, kind: pa.DataType) -> BranchDraws:
        """Find the position and the branch of every draw of a curve, table by table.

        Parameters
        ----------
        tables
            With the columns of a continuation's key; rows of other passes and probes are left out.
        column, kind
            What is kept of each draw, and its type; of tokens, their number.

        Raises
        ------
        ReforkError
            A draw stands at a position that is not drawn, or its arm is no branch there.
        """
        found = [(np.empty(0, np.int32),) * 3]
        values = [pa.array([], kind)]
        for table in tables:
            for start in range(0, table.num_rows, ROWS):
                part = _draws_of_curves(table.slice(start, ROWS))
                found.append(self._places(part))
                values += _values(part, column).cast(kind).chunks
        row, branch, draw = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return BranchDraws(row, branch, draw, pa.chunked_array(values, kind))

    def slots(self, draws: BranchDraws) -> Integers:
        """Give the number of every draw's branch among all branches; shape (draws,)."""
        slots: Integers = self.first[draws.row] + draws.branch
        return slots

    def weights(self, draws: BranchDraws) -> NDArray[np.float64]:
        """Weigh each draw by its branch's probability × draws of the position ÷ of the branch."""
        of_position = np.bincount(draws.row, minlength=self.grid.num_rows)[draws.row]
        slot = self.slots(draws)
        of_branch = np.bincount(slot, minlength=len(self.probability))[slot]
        weights: NDArray[np.float64] = self.probability[slot] * of_position / of_branch
        return weights

    def _places(self, table: pa.Table) -> tuple[Narrow, Narrow, Narrow]:
        """Row, branch and number of every draw."""
        row = self._rows(table)
        arms = table.column("arm").combine_chunks().dictionary_encode()
        numbers = np.array([_number(arm) for arm in arms.dictionary.to_pylist()], np.int64)
        branch = numbers[arms.indices.to_numpy()]
        outside = (branch < 0) | (branch >= np.diff(self.first)[row])
        if outside.any():
            at = int(np.argmax(outside))
            arm = table.column("arm")[at].as_py()
            raise ReforkError(f"{name_pivot(table, at)}: {arm!r} is no branch of the grid there")
        draw = table.column("draw").to_numpy().astype(np.int32)
        return row.astype(np.int32), branch.astype(np.int32), draw

    def _rows(self, table: pa.Table) -> Integers:
        there, here = number_pivots(self.grid, table)
        order = np.argsort(there)
        place = np.searchsorted(there[order], here)
        known = place < len(order)
        row = np.zeros_like(here)
        row[known] = order[place[known]]
        known[known] = there[row[known]] == here[known]
        if not known.all():
            stray = name_pivot(table, int(np.argmin(known)))
            raise ReforkError(f"a draw stands where nothing is drawn: {stray}")
        return row


def _draws_of_curves(table: pa.Table) -> pa.Table:
    of_curve = pc.and_(pc.equal(table.column("pass"), CURVE), pc.is_valid(table.column("draw")))
    return table.filter(of_curve.fill_null(False))


def _values(table: pa.Table, column: str) -> pa.ChunkedArray:
    """Give a column, or of a column of lists their lengths."""
    values = table.column(column)
    return pc.list_value_length(values) if pa.types.is_list(values.type) else values


def _number(arm: str) -> int:
    """Read the number of a branch; -1 where the arm names none."""
    number = arm.removeprefix(BRANCH)
    return int(number) if number != arm and number.isdecimal() else -1

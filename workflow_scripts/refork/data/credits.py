"""The credits table, one row a pivot and pass, as one array a pass over the same pivots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refork.data.pivot_keys import name_pivot, number_pivots
from refork.errors import ReforkError
from refork.stats.credit import credits_from_counts
from refork.stats.noise import PassMeasurements
from refork.stats.probes import UNKNOWN


@dataclass(frozen=True)
class AlignedCredits:
    """Some passes over the same pivots in the same order; arrays of shape (pivots,)."""

    problem: NDArray[np.int64]
    margin: NDArray[np.float32]
    passes: Mapping[str, PassMeasurements]


def pass_names(credits: pa.Table) -> list[str]:
    """Names of the passes in order of appearance; the first is the reference."""
    names: list[str] = credits.column("pass").unique().to_pylist()
    return names


def pool_credits(tables: Sequence[pa.Table]) -> pa.Table:
    """Put several runs together; of a pivot that several of them hold, the first run's is taken."""
    numbers = number_pivots(*tables)
    fresh = [
        table.filter(pa.array(~np.isin(numbers[i], np.concatenate(numbers[:i])))) if i else table
        for i, table in enumerate(tables)
    ]
    return pa.concat_tables(fresh)


def align_passes(credits: pa.Table, passes: Sequence[str]) -> AlignedCredits:
    """Take some passes out of a credits table (`data.schemas.CREDITS`), in the first one's order.

    Raises
    ------
    ReforkError
        A pass is not in the table, lacks a pivot, has one twice, or has a credit that is no number.
    """
    rows = _rows_of_passes(credits, passes)
    columns = _measurement_columns(credits)
    first = rows[passes[0]]
    problem = credits.column("question_id").combine_chunks().take(pa.array(first))
    return AlignedCredits(
        problem=problem.dictionary_encode().indices.to_numpy().astype(np.int64),
        margin=credits.column("margin").to_numpy()[first],
        passes={
            name: _pass_measurements({key: column[rows[name]] for key, column in columns.items()})
            for name in passes
        },
    )


def _rows_of_passes(credits: pa.Table, passes: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Rows of every pass, so ordered that the same place holds the same pivot."""
    known = pass_names(credits)
    absent = [name for name in passes if name not in known] if credits.num_rows else []
    if absent:
        raise ReforkError(f"no pass named {absent[0]!r}; the passes are: {', '.join(known)}")
    which = pc.index_in(credits.column("pass"), value_set=pa.array(passes, pa.string()))
    which = which.combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False)
    (pivots,) = number_pivots(credits)
    rows = {name: np.flatnonzero(which == i) for i, name in enumerate(passes)}
    order = {name: np.argsort(pivots[chosen], kind="stable") for name, chosen in rows.items()}
    first = passes[0]
    sorted_first = pivots[rows[first][order[first]]]
    for name, chosen in rows.items():
        in_order = chosen[order[name]]
        _refuse_twice(credits, name, in_order, pivots[in_order])
        if not np.array_equal(pivots[in_order], sorted_first):
            _refuse_gap(credits, (first, rows[first]), (name, chosen), pivots)
        aligned = np.empty_like(in_order)
        aligned[order[first]] = in_order
        rows[name] = aligned
    return rows


def _refuse_twice(
    credits: pa.Table, name: str, rows: NDArray[np.int64], pivots: NDArray[np.int64]
) -> None:
    twice = np.flatnonzero(pivots[1:] == pivots[:-1])
    if len(twice):
        pivot = name_pivot(credits, int(rows[twice[0]]))
        raise ReforkError(f"pass {name!r} holds a pivot twice: {pivot}")


def _refuse_gap(
    credits: pa.Table,
    first: tuple[str, NDArray[np.int64]],
    second: tuple[str, NDArray[np.int64]],
    pivots: NDArray[np.int64],
) -> None:
    for (name, rows), (other, there) in ((first, second), (second, first)):
        alone = rows[~np.isin(pivots[rows], pivots[there])]
        if len(alone):
            pivot = name_pivot(credits, int(alone[0]))
            raise ReforkError(
                f"pass {other!r} lacks {len(alone)} of the pivots of {name!r}, first: {pivot}"
            )


def _measurement_columns(credits: pa.Table) -> dict[str, NDArray[Any]]:
    """Numpy columns of a credits table, nulls as `stats` spells them."""
    columns = {
        name: credits.column(name).fill_null(0).to_numpy()
        for name in ("right_actual", "draws_actual", "right_alt", "draws_alt")
    }
    for name in ("cached", "probe_diverged"):
        columns[name] = credits.column(name).cast(pa.int8()).fill_null(UNKNOWN).to_numpy()
    columns["probe_delta"] = credits.column("probe_delta").fill_null(np.nan).to_numpy()
    columns["credit"] = credits.column("credit").to_numpy()
    strange = np.flatnonzero(~np.isfinite(columns["credit"]))
    if len(strange):
        pivot = name_pivot(credits, int(strange[0]))
        raise ReforkError(f"a credit is not a finite number: {pivot}")
    return columns


def _pass_measurements(columns: dict[str, NDArray[Any]]) -> PassMeasurements:
    return PassMeasurements(
        credits=credits_from_counts(
            columns["right_actual"],
            columns["draws_actual"],
            columns["right_alt"],
            columns["draws_alt"],
            known=columns["credit"],
        ),
        cached=columns["cached"],
        probe_diverged=columns["probe_diverged"],
        probe_delta=columns["probe_delta"],
    )

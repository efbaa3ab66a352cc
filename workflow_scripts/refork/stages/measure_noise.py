"""Stage measure_noise: from graded draws to the credits of every pass and their replay noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refork.data.credits import align_passes
from refork.data.noise_record import ComparedPasses, noise_record, noise_table
from refork.data.pivot_keys import name_pivot
from refork.data.schemas import ARMS, CREDITS, PIVOT_KEY
from refork.errors import ReforkError
from refork.stages.pivot_rows import PivotRows, compare_probes, keeps_state, place_rows
from refork.stats.credit import credits_from_counts
from refork.stats.noise import measure
from refork.study.config import Noise


@dataclass(frozen=True)
class MeasuredNoise:
    """Outputs of the stage.

    `credits` is a table of `data.schemas.CREDITS`, `noise` the JSON object {"comparisons": […]} of
    records of `data.noise_record`, `table` the same as `data.schemas.NOISE`.
    """

    credits: pa.Table
    noise: dict[str, Any]
    table: pa.Table


@dataclass(frozen=True)
class Resumes:
    """How an engine resumes its own decode-time state: in which state, by how many tokens."""

    state: str
    block: int


def measure_noise(
    stage: Mapping[str, Any], pivots: pa.Table, outcomes: pa.Table, continuations: pa.Table
) -> MeasuredNoise:
    """Measure the credits of all passes and the noise of all comparisons.

    Parameters
    ----------
    stage
        The record that was hashed.
    pivots, outcomes, continuations
        Tables of `data.schemas`, all shards, draw blocks and passes of a variant.

    Raises
    ------
    ReforkError
        A pivot has not the same number of draws in every pass and arm, or a comparison names a pass
        that is not there.
    """
    passes: list[str] = stage["settings"]["passes"]
    settings = Noise.model_validate(stage["settings"]["noise"])
    lock: Mapping[str, Any] = stage["lock"]
    resumes = Resumes(lock.get("exact", "snapshot"), lock["block_size"])
    credits = pass_credits(pivots, outcomes, continuations, passes, resumes)
    records = {}
    for item in settings.comparisons:
        names = ComparedPasses(passes[0], item.treatment, item.floor)
        records[names.label] = compare_passes(
            credits, names, settings.critical, settings.margin_split
        )
    return MeasuredNoise(credits, {"comparisons": list(records.values())}, noise_table(records))


def compare_passes(
    credits: pa.Table, names: ComparedPasses, critical: Sequence[float], margin_split: float
) -> dict[str, Any]:
    """Give the noise record of one comparison of a credits table (`data.schemas.CREDITS`)."""
    aligned = align_passes(credits, [names.reference, names.floor, names.treatment])
    noise = measure(
        aligned.problem,
        aligned.margin,
        aligned.passes[names.reference],
        aligned.passes[names.treatment],
        aligned.passes[names.floor],
        critical=critical,
        margin_split=margin_split,
    )
    return noise_record(noise, names)


def pass_credits(
    pivots: pa.Table,
    outcomes: pa.Table,
    continuations: pa.Table,
    passes: Sequence[str],
    resumes: Resumes,
) -> pa.Table:
    """Give the credits of every pass (`data.schemas.CREDITS`), passes one after the other.

    `passes` names them, the reference first; `resumes` says how the engine resumes its own
    decode-time state. Probes are compared with those of the reference; `cached` is null for a pass
    that does not resume that state.
    """
    requests = place_rows(continuations, pivots, passes)
    measured = _Rows(
        pivots=pivots,
        draws=place_rows(outcomes.filter(pc.is_valid(outcomes.column("draw"))), pivots, passes),
        resumed=requests.select(pc.equal(continuations.column("state"), resumes.state).to_numpy()),
        probes=requests.select(pc.is_null(continuations.column("draw")).to_numpy()),
    )
    tables = [_pass_table(measured, name, i, resumes.block) for i, name in enumerate(passes)]
    credits = pa.concat_tables(tables)
    _refuse_gaps(credits)
    return credits


@dataclass(frozen=True)
class _Rows:
    """Pivots, their graded draws, the requests that resumed a state, and the greedy probes."""

    pivots: pa.Table
    draws: PivotRows
    resumed: PivotRows
    probes: PivotRows


def _pass_table(rows: _Rows, name: str, number: int, block_size: int) -> pa.Table:
    n = rows.pivots.num_rows
    counts = _counts(rows.draws, number)
    # Where an arm has no draws there is no credit; `_refuse_gaps` names that pivot.
    credits = credits_from_counts(**counts, known=np.full(n, np.nan))
    resumed = rows.resumed.count(rows.resumed.pass_ == number) > 0
    probed, diverged, delta = compare_probes(rows.probes, number)
    probed &= number > 0
    columns = {
        **{field.name: rows.pivots.column(field.name) for field in PIVOT_KEY},
        "margin": rows.pivots.column("margin"),
        "pass": pa.array([name] * n, pa.string()),
        "credit": credits.value,
        **counts,
        "cached": pa.array(keeps_state(rows.resumed, number, block_size), mask=~resumed),
        "probe_diverged": pa.array(diverged, mask=~probed),
        "probe_delta": pa.array(delta, mask=~probed | np.isnan(delta)),
    }
    return pa.table(columns).select(CREDITS.names).cast(CREDITS)


def _counts(draws: PivotRows, number: int) -> dict[str, NDArray[np.int64]]:
    correct = draws.column("correct").astype(np.bool_)
    counts = {}
    for code, arm in enumerate(ARMS):
        of_arm = (draws.pass_ == number) & (draws.arm == code)
        counts[f"right_{arm}"] = draws.count(of_arm & correct)
        counts[f"draws_{arm}"] = draws.count(of_arm)
    return counts


def _refuse_gaps(credits: pa.Table) -> None:
    """Refuse a pass or arm that lacks draws: an absent outcome is no wrong answer."""
    draws = {arm: credits.column(f"draws_{arm}").to_numpy() for arm in ARMS}
    wanted = max((int(count.max()) for count in draws.values() if len(count)), default=0)
    for arm, count in draws.items():
        short = np.flatnonzero((count != wanted) | (count == 0))
        if len(short):
            row = int(short[0])
            raise ReforkError(
                f"{name_pivot(credits, row)}: pass {credits.column('pass')[row].as_py()!r} has "
                f"{count[row]} graded draws of arm {arm!r}, others have {wanted}"
            )

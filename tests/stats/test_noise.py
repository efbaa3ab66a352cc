"""Invariants of a whole comparison."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from refork.stats.credit import credits_from_counts
from refork.stats.missing import Missing
from refork.stats.noise import PassMeasurements, ReplayNoise, measure

DRAWS = 4

# A pivot: problem, margin, and for each of three passes the right outcomes by arm and a probe.
arm_counts = st.tuples(st.integers(0, DRAWS), st.integers(0, DRAWS), st.integers(0, 3))
pivot = st.tuples(st.integers(0, 4), st.integers(0, 9), arm_counts, arm_counts, arm_counts)
pivots = st.lists(pivot, min_size=1, max_size=40)


def table(rows: list[Any]) -> NDArray[np.int64]:
    """Lay the pivots out as (pivots, 11) whole numbers."""
    return np.array([[row[0], row[1], *row[2], *row[3], *row[4]] for row in rows])


def one_pass(columns: NDArray[np.int64]) -> PassMeasurements:
    draws = np.full(len(columns), DRAWS)
    return PassMeasurements(
        credits=credits_from_counts(columns[:, 0], draws, columns[:, 1], draws),
        cached=np.ones(len(columns), dtype=np.int8),
        probe_diverged=(columns[:, 2] > 1).astype(np.int8),
        probe_delta=columns[:, 2] / 8,
    )


def measured(rows: NDArray[np.int64], swap: bool = False) -> ReplayNoise:
    _, problem = np.unique(rows[:, 0], return_inverse=True)
    margin = (rows[:, 1] / 10).astype(np.float32)
    reference, treatment, floor = (one_pass(rows[:, 2 + 3 * i : 5 + 3 * i]) for i in range(3))
    if swap:
        treatment, floor = floor, treatment
    return measure(problem, margin, reference, treatment, floor)


@given(pivots, st.randoms())
def test_the_order_of_pivots_changes_nothing(rows: list[Any], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert measured(table(shuffled)) == measured(table(rows))


@given(pivots)
def test_swapping_treatment_and_floor_negates_the_excess(rows: list[Any]) -> None:
    one, other = measured(table(rows)), measured(table(rows), swap=True)
    for value, swapped in (
        (one.excess, other.excess),
        (one.clustered.mean, other.clustered.mean),
        (one.clustered.t, other.clustered.t),
        (one.mcnemar.z, other.mcnemar.z),
    ):
        assert swapped == (value if isinstance(value, Missing) else -value)
    assert (one.clustered.worse, one.clustered.better) == (
        other.clustered.better,
        other.clustered.worse,
    )
    assert one.flips.treatment == other.flips.floor
    assert one.eligible == other.eligible


@given(pivots)
def test_parts_add_up(rows: list[Any]) -> None:
    noise = measured(table(rows))
    for low, high, whole in (
        (noise.low_margin.treatment, noise.high_margin.treatment, noise.flips.treatment),
        (noise.low_margin.floor, noise.high_margin.floor, noise.flips.floor),
    ):
        assert low.n + high.n == whole.n == noise.eligible
        assert low.flips + high.flips == whole.flips
    b, c = noise.mcnemar.treatment_only, noise.mcnemar.floor_only
    assert b - c == noise.flips.treatment.flips - noise.flips.floor.flips
    assert noise.reference_nonzero.treatment.n == noise.reference_facts.nonzero
    clustered = noise.clustered
    assert clustered.worse + clustered.better + clustered.equal == clustered.problems


@given(pivots)
def test_a_pass_beside_itself_is_free_of_noise(rows: list[Any]) -> None:
    same = table(rows)
    same[:, 5:8] = same[:, 8:11] = same[:, 2:5]
    noise = measured(same)
    assert noise.flips.treatment.flips == noise.flips.floor.flips == 0
    assert noise.excess in (0.0, Missing("no eligible pivots"))
    assert noise.bias.mean in (0.0, Missing("no eligible pivots"))
    for critical in noise.critical.values():
        assert critical.jaccard.treatment in (1.0, Missing("no critical token in either pass"))


def test_a_margin_at_the_split_is_not_below_it() -> None:
    rows = table([(0, 3, (4, 0, 0), (4, 0, 0), (4, 0, 0)), (0, 2, (4, 0, 0), (4, 0, 0), (4, 0, 0))])
    noise = measured(rows)
    assert (noise.low_margin.treatment.n, noise.high_margin.treatment.n) == (1, 1)


def test_no_pivots_at_all() -> None:
    noise = measured(np.zeros((0, 11), dtype=np.int64))
    assert (noise.n_pivots, noise.n_problems, noise.eligible, noise.probed) == (0, 0, 0, 0)
    assert noise.excess == Missing("no eligible pivots")
    assert noise.reference_facts.mean_credit == Missing("no pivots")
    assert noise.reference_facts.cached_share == Missing("no record of cached tokens")

"""Clustered excess, McNemar's z and bias against closed forms and scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from refork.stats.inference import bias, clustered_excess, mcnemar
from refork.stats.missing import Missing

ALL = np.ones(6, dtype=bool)
eighths = st.integers(-8, 8).map(lambda number: number / 8)


def mask(*bits: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(bits, dtype=bool)


def test_clustered_excess_is_a_mean_over_problems() -> None:
    found = clustered_excess(
        mask(1, 1, 1, 0, 0, 0), mask(0, 0, 0, 0, 1, 0), ALL, np.array([0, 0, 1, 1, 2, 2])
    )
    by_problem = np.array([1.0, 0.5, -0.5])
    assert (found.problems, found.worse, found.better, found.equal) == (3, 2, 1, 0)
    assert found.mean == pytest.approx(by_problem.mean())
    assert found.t == pytest.approx(stats.ttest_1samp(by_problem, 0).statistic)


def test_problems_without_eligible_pivots_are_left_out() -> None:
    among = mask(1, 1, 1, 1, 0, 0)
    problem = np.array([0, 0, 2, 2, 1, 3])
    found = clustered_excess(mask(1, 0, 0, 0, 1, 1), mask(0, 0, 1, 1, 0, 0), among, problem)
    assert found.problems == 2
    assert found.mean == -0.25


def test_one_problem_has_no_t() -> None:
    found = clustered_excess(ALL, ~ALL, ALL, np.zeros(6, dtype=np.int64))
    assert found.mean == 1.0
    assert isinstance(found.t, Missing)


def test_equal_problems_have_no_t() -> None:
    found = clustered_excess(ALL, ~ALL, ALL, np.arange(6))
    assert found.mean == 1.0
    assert found.t == Missing("no variance: all values are equal")


def test_no_pivots_no_excess() -> None:
    nothing = mask()
    found = clustered_excess(nothing, nothing, nothing, np.zeros(0, dtype=np.int64))
    assert found.problems == 0
    assert found.mean == found.t == Missing("no problems with eligible pivots")


def test_mcnemar_compares_the_pivots_that_one_pass_flipped() -> None:
    pairs = np.array(list(product((True, False), repeat=2)) + [(True, False)] * 3)
    found = mcnemar(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=bool))
    assert (found.treatment_only, found.floor_only) == (4, 1)
    assert found.z == pytest.approx(3 / 5**0.5)
    swapped = mcnemar(pairs[:, 1], pairs[:, 0], np.ones(len(pairs), dtype=bool))
    assert swapped.z == -3 / 5**0.5


def test_mcnemar_needs_a_pivot_on_which_the_passes_differ() -> None:
    assert mcnemar(ALL, ALL, ALL).z == Missing("no pivot flipped in one pass only")


@given(st.lists(st.tuples(eighths, eighths), min_size=2, max_size=30))
def test_bias_equals_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    reference, treatment = np.array(pairs).T
    found = bias(reference, treatment, np.ones(len(pairs), dtype=bool))
    shift = treatment - reference
    assert found.mean == pytest.approx(shift.mean(), abs=1e-15)
    if np.ptp(shift) == 0:
        assert isinstance(found.t, Missing)
        assert found.low == found.high == found.mean
    else:
        error = shift.std(ddof=1) / len(shift) ** 0.5
        assert found.t == pytest.approx(stats.ttest_rel(treatment, reference).statistic)
        assert found.low == pytest.approx(shift.mean() - 1.96 * error)
        assert found.high == pytest.approx(shift.mean() + 1.96 * error)


def test_rounding_is_no_variance() -> None:
    reference, treatment = np.array([0.1, 0.0, 0.7]), np.array([0.3, 0.2, 0.9])
    assert np.ptp(treatment - reference) > 0
    assert isinstance(bias(reference, treatment, np.ones(3, dtype=bool)).t, Missing)


def test_bias_of_one_pivot_and_of_none() -> None:
    one = bias(np.array([0.25]), np.array([0.75]), mask(1))
    assert one.mean == 0.5
    assert one.low == one.high == one.t
    assert isinstance(one.t, Missing)
    none = bias(np.array([0.25]), np.array([0.75]), mask(0))
    assert none.n == 0
    assert none.mean == none.t == none.low == Missing("no eligible pivots")

"""Errors of estimated curves against draws they have not seen."""

from math import isnan, log, sqrt

import numpy as np
import pytest
from scipy import stats

from refork.stats.curves.scores import (
    FLOOR,
    average,
    effective_samples,
    over_questions,
    paired_difference,
    score,
)
from refork.stats.missing import Missing

NOWHERE = dict.fromkeys((0.10, 0.15, 0.20), np.zeros(2, dtype=bool))


def test_every_error_by_hand() -> None:
    estimate = np.array([[0.5, 0.5], [0.9, 0.1]])
    others = np.array([[6, 4], [10, 0]])
    scores = score(estimate, others, NOWHERE | {0.10: np.array([False, True])})
    assert scores["tvd"] == pytest.approx(0.1)
    assert scores["tvd_flat_0.10"] == pytest.approx(0.1)
    assert scores["tvd_jump_0.10"] == pytest.approx(0.1)
    assert isnan(scores["tvd_jump_0.20"])
    assert scores["l2"] == pytest.approx((0.02 - 0.48 / 9 + 0.02) / 2)
    assert scores["noise"] == pytest.approx(0.48 * 10 / 9 / 2)
    shares = (estimate + FLOOR) / (1 + 2 * FLOOR)
    likelihood = (0.6 * log(shares[0, 0]) + 0.4 * log(shares[0, 1]) + log(shares[1, 0])) / 2
    assert scores["loglik"] == pytest.approx(likelihood)


def test_the_reference_s_noise_is_removed_in_expectation() -> None:
    random = np.random.default_rng(0)
    curve, estimate = np.array([0.5, 0.3, 0.2]), np.array([0.55, 0.3, 0.15])
    others = random.multinomial(20, curve, size=40_000)
    regions = dict.fromkeys((0.10, 0.15, 0.20), np.zeros(len(others), dtype=bool))
    scores = score(np.tile(estimate, (len(others), 1)), others, regions)
    assert scores["l2"] == pytest.approx(0.005, abs=6e-4)
    assert scores["noise"] == pytest.approx(float((curve * (1 - curve)).sum()), abs=2e-3)


def test_raw_draws_are_worth_themselves() -> None:
    random = np.random.default_rng(1)
    curve = random.dirichlet(np.ones(4), size=500)
    regions = dict.fromkeys((0.10, 0.15, 0.20), np.zeros(500, dtype=bool))
    questions = [
        score(random.multinomial(8, curve) / 8, random.multinomial(192, curve), regions)
        for _ in range(20)
    ]
    multiplier = effective_samples(questions, 8)
    assert not isinstance(multiplier, Missing)
    assert multiplier == pytest.approx(1, abs=0.03)


def test_an_estimate_of_four_times_the_draws_is_worth_four() -> None:
    random = np.random.default_rng(2)
    curve = random.dirichlet(np.ones(4), size=500)
    regions = dict.fromkeys((0.10, 0.15, 0.20), np.zeros(500, dtype=bool))
    questions = [
        score(random.multinomial(32, curve) / 32, random.multinomial(192, curve), regions)
        for _ in range(20)
    ]
    assert effective_samples(questions, 8) == pytest.approx(4, abs=0.15)


def test_no_error_above_0_is_no_multiplier() -> None:
    found = effective_samples([{"l2": -0.01, "noise": 0.5}], 5)
    assert isinstance(found, Missing)


def test_a_position_without_draws_is_judged_by_the_next() -> None:
    estimate = np.array([[0.5, 0.5], [0.8, 0.2]])
    scores = score(estimate, np.array([[0, 0], [10, 0]]), NOWHERE)
    assert scores["tvd"] == pytest.approx((0.5 + 0.2) / 2)


def test_certain_curves_have_a_finite_likelihood() -> None:
    estimate = np.array([[1.0, 0.0], [1.0, 0.0]])
    scores = score(estimate, np.array([[0, 10], [10, 0]]), NOWHERE)
    assert scores["loglik"] == pytest.approx(log(FLOOR) / 2, rel=1e-3)


def test_replicates_are_averaged_before_questions() -> None:
    nan = float("nan")
    first = average([{"tvd": 0.1, "jump": nan}, {"tvd": 0.3, "jump": nan}])
    second = average([{"tvd": 0.4, "jump": 0.5}])
    assert over_questions([first, second], "tvd") == pytest.approx(0.3)
    assert over_questions([first, second], "jump") == pytest.approx(0.5)
    assert isinstance(over_questions([first], "jump"), Missing)


def test_paired_differences_are_student_s() -> None:
    random = np.random.default_rng(3)
    one, other = random.normal(0.1, 1, 12), random.normal(0, 1, 12)
    found = paired_difference([{"tvd": x} for x in one], [{"tvd": x} for x in other], "tvd")
    expected = stats.ttest_rel(one, other)
    low, high = expected.confidence_interval(0.95)
    assert found.questions == 12
    assert found.mean == pytest.approx(float((one - other).mean()))
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


def test_questions_without_the_error_are_left_out_of_the_pairs() -> None:
    nan = float("nan")
    one = [{"tvd": 1.0}, {"tvd": nan}, {"tvd": 3.0}]
    found = paired_difference(one, [{"tvd": 0.0}] * 3, "tvd")
    assert found.questions == 2
    assert found.mean == 2
    reach = 12.706204736 * sqrt(2) / sqrt(2)
    assert found.high == pytest.approx(2 + reach)


@pytest.mark.parametrize(("values", "mean"), [([0.5], 0.5), ([float("nan")], None)])
def test_too_few_questions_have_no_interval(values: list[float], mean: float | None) -> None:
    found = paired_difference([{"tvd": x} for x in values], [{"tvd": 0.0}], "tvd")
    assert isinstance(found.low, Missing)
    assert isinstance(found.high, Missing)
    assert isinstance(found.mean, Missing) if mean is None else found.mean == mean

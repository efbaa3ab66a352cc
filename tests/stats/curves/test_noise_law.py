"""The noise of raw draws beside that of multinomial draws."""

from itertools import product
from math import comb

import numpy as np
import pytest

from refork.stats.curves.mixture import MixtureDraws
from refork.stats.curves.noise_law import (
    SAMPLES,
    measured_law,
    noise_law,
    null_distance,
    replicate_distance,
)
from refork.stats.missing import Missing


def draws_of(outcome: np.ndarray, categories: int) -> MixtureDraws:
    """Outcomes [positions, draws] of a question."""
    known = np.ones(len(outcome))
    zeros = np.zeros_like(outcome)
    grid = np.arange(len(outcome))
    return MixtureDraws(grid, outcome, zeros, zeros, categories, known, 0 * known)


def multinomial_questions(number: int, size: int = 200) -> list[MixtureDraws]:
    """Draw independently from curves whose shares are well above 1/5."""
    random = np.random.default_rng(4)
    share = random.uniform(0.35, 0.65, size=(number, 60, 1))
    return [draws_of((random.random((60, size)) < one).astype(int), 2) for one in share]


def test_the_distance_of_blocks_by_hand() -> None:
    outcome = np.array([[0, 0, 0, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0]])
    # Blocks of two: 1 − 1/2 and 1/2 − 0 at the first position.
    assert replicate_distance(draws_of(outcome, 2), 2) == pytest.approx((0.5 + 0.5) / 2 / 2)


def test_the_null_is_the_exact_expectation() -> None:
    outcome = np.array([[0] * 3 + [1] * 5 + [2] * 2])
    size, share = 4, (0.3, 0.5, 0.2)

    def binomial(count: int, p: float) -> float:
        return comb(size, count) * p**count * (1 - p) ** (size - count)

    expected = sum(
        abs(x - y) / size / 2 * binomial(x, p) * binomial(y, p)
        for p in share
        for x, y in product(range(size + 1), repeat=2)
    )
    assert null_distance(draws_of(outcome, 3), size) == pytest.approx(expected)


def test_independent_draws_follow_the_null() -> None:
    law = measured_law(multinomial_questions(40))
    assert not isinstance(law, Missing)
    assert law.samples == SAMPLES
    for ratio in law.ratio:
        assert ratio.value == pytest.approx(1, abs=0.03)
        assert not isinstance(ratio.low, Missing)
        assert not isinstance(ratio.high, Missing)
        assert ratio.low < ratio.high
    assert law.slope.value == pytest.approx(-0.5, abs=0.03)
    assert law.null_slope == pytest.approx(-0.5, abs=0.03)


def test_draws_that_repeat_one_another_do_not() -> None:
    repeated = [
        draws_of(np.repeat(one.outcome[:, ::4], 4, axis=1), 2) for one in multinomial_questions(20)
    ]
    law = measured_law(repeated)
    assert not isinstance(law, Missing)
    at_twenty = law.ratio[SAMPLES.index(20)]
    assert at_twenty.value == pytest.approx(2, abs=0.15)
    assert not isinstance(at_twenty.low, Missing)
    assert at_twenty.low > 1.5


def test_certain_curves_have_no_ratio_and_no_slope() -> None:
    law = measured_law([draws_of(np.zeros((5, 200), dtype=int), 2)] * 3)
    assert not isinstance(law, Missing)
    assert isinstance(law.slope.value, Missing)
    assert all(isinstance(ratio.value, Missing) for ratio in law.ratio)


def test_one_question_has_no_interval() -> None:
    law = measured_law(multinomial_questions(1))
    assert not isinstance(law, Missing)
    assert isinstance(law.slope.low, Missing)
    assert not isinstance(law.slope.value, Missing)


def test_few_draws_leave_the_small_blocks() -> None:
    law = measured_law(multinomial_questions(3, size=25))
    assert not isinstance(law, Missing)
    assert law.samples == (5, 10)
    assert isinstance(measured_law(multinomial_questions(3, size=9)), Missing)


def test_the_slope_is_that_of_the_pooled_distance() -> None:
    samples = (4, 16)
    distance = np.array([[0.4, 0.2], [0.2, 0.1]])
    law = noise_law(distance, distance, samples)
    assert law.slope.value == pytest.approx(-0.5)
    assert law.slope.low == pytest.approx(-0.5)

"""The multinomial as binomial sticks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom, multinomial

from refork.stats.curves.forkhmm.states import States
from refork.stats.curves.forkhmm.sticks import (
    Seen,
    compose,
    deviation,
    order_of,
    starts,
    sticks_of,
)


def test_the_most_frequent_category_comes_first_and_ties_keep_their_order() -> None:
    counts = np.array([[1.0, 2.0, 0.0, 2.0], [0.0, 1.0, 1.0, 1.0]])
    assert order_of(counts).tolist() == [1, 3, 0, 2]


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_the_sticks_likelihood_is_the_multinomials(counts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    table = np.array([counts], dtype=np.float64)
    order = order_of(table)
    sticks = random.uniform(0.05, 0.95, len(counts) - 1)
    probabilities = compose(sticks[:, None], order)[:, 0]
    by_stick = sum(
        binom.logpmf(seen.hits[0], seen.trials[0], stick)
        for seen, stick in zip(sticks_of(table, order), sticks, strict=True)
    )
    np.testing.assert_allclose(probabilities.sum(), 1)
    np.testing.assert_allclose(
        by_stick, multinomial.logpmf(counts, sum(counts), probabilities), atol=1e-9
    )


def test_one_category_has_no_sticks_and_is_certain() -> None:
    order = np.array([0])
    assert sticks_of(np.array([[3.0], [0.0]]), order) == []
    assert compose(np.empty((0, 2)), order).tolist() == [[1.0, 1.0]]
    assert deviation(np.empty((0, 2)), np.empty((0, 2)), order).tolist() == [[0.0, 0.0]]


def test_the_deviation_is_that_of_independent_sticks() -> None:
    random, order = np.random.default_rng(0), np.array([2, 0, 1])
    shapes = [(2.0, 3.0), (5.0, 1.0)]
    draws = np.array([beta.rvs(*shape, size=400_000, random_state=random) for shape in shapes])
    mean = np.array([[a / (a + b)] for a, b in shapes])
    square = mean**2 + np.array([[beta.var(*shape)] for shape in shapes])
    np.testing.assert_allclose(
        deviation(mean, square, order)[:, 0], compose(draws, order).std(axis=1), rtol=0.01
    )


def test_the_likelihood_is_a_binomials_scaled_to_1() -> None:
    grid = States.of(32)
    likelihood = Seen(np.array([3.0, 0.0, 2.5]), np.array([10.0, 0.0, 4.0])).likelihood(grid)
    expected = binom.pmf(3, 10, grid.points)
    np.testing.assert_allclose(likelihood[0], expected / expected.max())
    assert likelihood[1].tolist() == [1.0] * 32
    expected = grid.points**2.5 * (1 - grid.points) ** 1.5
    np.testing.assert_allclose(likelihood[2], expected / expected.max())


def test_thousands_of_draws_do_not_underflow() -> None:
    likelihood = Seen(np.array([50_000.0]), np.array([100_000.0])).likelihood(States.of(64))
    assert likelihood.max() == 1.0
    assert np.all(np.isfinite(likelihood))


def test_the_first_stick_starts_elsewhere_than_the_others() -> None:
    grid = States.of(64)
    first, second, third = starts(grid, 3)
    np.testing.assert_allclose(first @ grid.points, 0.8 / 1.2, atol=1e-3)
    np.testing.assert_allclose(second @ grid.points, 0.5, atol=1e-9)
    assert third is second

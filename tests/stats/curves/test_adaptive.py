"""Budgets go where curves are uncertain and draws are short, and are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refork.errors import ReforkError
from refork.stats.curves.adaptive import Need, allot, expected_lengths


def need(seed: int, positions: int, spent: int = 3) -> Need:
    """Return a need of random numbers."""
    random = np.random.default_rng(seed)
    return Need(
        uncertainty=random.uniform(0, 0.2, positions),
        length=random.uniform(5, 200, positions),
        draws=random.integers(0, spent, positions),
        drawable=random.random(positions) < 0.7,
    )


def even(positions: int, **changes: object) -> Need:
    """Return a need that is the same at every position, but for what is changed."""
    fields = {
        "uncertainty": np.full(positions, 0.1),
        "length": np.full(positions, 50.0),
        "draws": np.zeros(positions, np.int64),
        "drawable": np.ones(positions, np.bool_),
    }
    return Need(**{**fields, **changes})  # type: ignore[arg-type] # arrays by their names


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 999), min_size=1, max_size=5),
    budget=st.floats(10, 50_000),
    most=st.integers(1, 60),
)
def test_bounds_are_kept(seeds: list[int], budget: float, most: int) -> None:
    needs = [need(seed, 20 + seed % 30) for seed in seeds]
    for one, further in zip(needs, allot(needs, budget, most, seed=0), strict=True):
        assert (further >= 0).all()
        assert (one.draws + further <= np.maximum(most, one.draws)).all()
        assert not further[~one.drawable].any()


def test_the_expected_cost_is_the_budget() -> None:
    needs = [need(seed, 60) for seed in range(4)]
    costs = [
        sum(float(further @ one.length) for one, further in zip(needs, given_, strict=True))
        for given_ in (allot(needs, 20_000, 200, seed) for seed in range(200))
    ]
    assert np.mean(costs) == pytest.approx(20_000, rel=0.01)


def test_a_budget_that_is_too_large_fills_all_that_may_be_filled() -> None:
    one = even(4, drawable=np.array([True, False, True, True]), draws=np.array([0, 0, 2, 9]))
    [further] = allot([one], 1e9, 8, seed=0)
    assert further.tolist() == [8, 0, 6, 0]


def test_draws_grow_with_the_root_of_uncertainty_over_length() -> None:
    one = even(4, uncertainty=np.array([0.1, 0.4, 0.1, 0.4]), length=np.array([25.0, 25, 100, 100]))
    [further] = allot([one], 1e5, 10_000, seed=0)
    shares = further / further[0]
    assert shares == pytest.approx([1, 2, 0.5, 1], rel=0.01)


def test_draws_that_there_are_count() -> None:
    one = even(2, draws=np.array([30, 0]))
    [further] = allot([one], 50 * 10, 1000, seed=0)
    assert further.tolist() == [0, 10]


def test_questions_count_alike_however_long_they_are() -> None:
    short, long = allot([even(10), even(90)], 50 * 1000, 10_000, seed=1)
    # n per position goes with 1/√P.
    assert short.mean() / long.mean() == pytest.approx(3, rel=0.05)


def test_lengths_are_linear_between_what_is_known() -> None:
    positions = np.array([0, 4, 8, 12])
    guess = expected_lengths(positions, np.array([0, 2]), np.array([90.0, 50.0]))
    assert guess.tolist() == [90, 70, 50, 50]
    with pytest.raises(ReforkError, match="no position has draws"):
        expected_lengths(positions, np.array([], np.int64), np.array([]))


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ReforkError, match="budget: 0 tokens"):
        allot([even(3)], 0, 10, seed=0)
    assert allot([], 10, 10, seed=0) == []

"""Intervals clustered by problem: exact cases, properties, and how often they hold the rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta

from refork.stats import bootstrap
from refork.stats.bootstrap import Interval, clustered_interval
from refork.stats.missing import Missing

Counts = NDArray[np.int64]


def counts(*pairs: tuple[int, int]) -> tuple[Counts, Counts]:
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def interval(part: Counts, whole: Counts, **options: int) -> Interval:
    found = clustered_interval(part, whole, **options)
    assert isinstance(found, Interval)
    return found


def reason(*pairs: tuple[int, int]) -> str:
    found = clustered_interval(*counts(*pairs))
    assert isinstance(found, Missing)
    return found.reason


def test_what_cannot_be_judged_has_a_reason() -> None:
    assert reason() == "no problems"
    assert reason((0, 0), (0, 0)) == "no problems"
    assert reason((1, 2)) == reason((1, 2), (0, 0)) == "one problem alone: no spread to judge by"
    assert reason((1, 2), (2, 4)) == "the rate of all problems is the same: no spread to judge by"


@pytest.mark.parametrize("problems", [2, 40, 48])
def test_alike_observations_get_the_exact_bound(problems: int) -> None:
    whole = np.full(problems, 8)
    full = interval(whole, whole)
    none = interval(np.zeros_like(whole), whole)
    assert full.one_sided
    assert none.one_sided
    assert (full.low, full.high) == pytest.approx((beta.ppf(0.05, problems, 1), 1))
    assert (none.low, none.high) == pytest.approx((0, beta.ppf(0.95, 1, problems)))


def test_percentiles_of_two_problems_in_closed_form() -> None:
    # A resample has rate 0, 1/2 or 1 with probability 1/4, 1/2, 1/4.
    part, whole = counts((0, 3), (3, 3))
    assert interval(part, whole) == Interval(0.0, 1.0)
    middle = clustered_interval(part, whole, confidence=0.4)
    assert middle == Interval(0.5, 0.5)


def test_a_large_problem_weighs_more() -> None:
    few, many = counts((1, 1), *[(0, 1)] * 9), counts((9, 9), *[(0, 1)] * 9)
    assert interval(*few).high < interval(*many).high


def test_the_spread_is_that_of_problems_not_of_draws() -> None:
    random = np.random.default_rng(3)
    right = (random.random(50) < 0.4).astype(np.int64)
    whole = np.full(50, 20)
    found = interval(20 * right, whole)
    error = np.sqrt(right.mean() * (1 - right.mean()) / 50)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_seeds_are_reproducible_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    part, whole = counts((0, 4), (3, 5), (2, 2), (1, 7), (5, 6), (2, 9), (0, 3), (4, 11))
    found = interval(part, whole, seed=1)
    assert found == interval(part, whole, seed=1)
    assert found != interval(part, whole, seed=2)
    monkeypatch.setattr(bootstrap, "_CELLS", 10)
    assert found == interval(part, whole, seed=1)


pairs = st.integers(0, 9).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole)))


@settings(deadline=None)
@given(st.lists(pairs, max_size=12))
def test_an_interval_lies_in_the_range_of_the_problems_rates(given: list[tuple[int, int]]) -> None:
    part, whole = counts(*given)
    found = clustered_interval(part, whole, resamples=300)
    swapped = clustered_interval(whole - part, whole, resamples=300)
    if isinstance(found, Missing):
        assert swapped == found
        return
    assert isinstance(swapped, Interval)
    assert (swapped.low, swapped.high) == pytest.approx((1 - found.high, 1 - found.low))
    rates = part[whole > 0] / whole[whole > 0]
    if not found.one_sided:
        assert rates.min() <= found.low <= found.high <= rates.max()
    assert 0 <= found.low <= part.sum() / whole.sum() <= found.high <= 1 or not found.one_sided


@pytest.mark.parametrize(
    ("rate", "problems", "least"),
    [(0.7, 20, 0.89), (0.7, 40, 0.92), (0.7, 100, 0.92), (0.95, 20, 0.82), (0.95, 40, 0.88)],
)
def test_coverage(rate: float, problems: int, least: float) -> None:
    """Draws of a problem share its rate, a beta variate; problems differ in draws."""
    random = np.random.default_rng(11)
    replicates, held = 600, 0
    spread = 2 if rate == 0.7 else 10
    for _ in range(replicates):
        whole = random.integers(4, 17, size=problems)
        own = random.beta(spread * rate, spread * (1 - rate), size=problems)
        found = interval(random.binomial(whole, own), whole, resamples=1000)
        held += found.low <= rate <= found.high
    assert least <= held / replicates <= 0.98

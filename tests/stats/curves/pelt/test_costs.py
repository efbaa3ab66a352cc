"""Costs against their formulas, written out here a second time."""

import numpy as np
import pytest
from numpy.typing import NDArray
from ruptures.base import BaseCost
from ruptures.costs import CostL2
from scipy.special import xlogy

from refork.stats.curves.pelt.costs import COSTS, L2, Cost, LogitLinear, Multinomial
from refork.stats.curves.pelt.kernels import SCALE

Floats = NDArray[np.float64]


def counts(rows: int, draws: int = 20, categories: int = 4, seed: int = 0) -> Floats:
    random = np.random.default_rng(seed)
    curve = random.dirichlet(np.ones(categories), size=rows)
    return np.stack([random.multinomial(draws, share) for share in curve]).astype(np.float64)


def segments(rows: int, least: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(rows) for b in range(a + least, rows + 1)]


def line_squares(segment: Floats, time: Floats) -> float:
    """Fit a line to the empirical logits of each category by numpy's own least squares."""
    squares = 0.0
    draws = segment.sum(axis=1)
    for count in segment.T:
        share = (count + 0.5) / (draws + 1)
        root = np.sqrt(draws * share) * (1 - share)
        design = np.column_stack([root, root * time])
        target = root * (np.log(count + 0.5) - np.log(draws - count + 0.5))
        best = np.linalg.lstsq(design, target)[0]
        squares += float(np.sum((target - design @ best) ** 2))
    return squares / 2


@pytest.mark.parametrize("name", COSTS)
def test_ruptures_takes_every_cost(name: str) -> None:
    assert issubclass(COSTS[name], BaseCost)
    # Not a name under which ruptures would make a cost of its own.
    assert COSTS[name].model not in {own.model for own in BaseCost.__subclasses__()}


def test_multinomial_is_minus_the_log_likelihood_of_one_distribution() -> None:
    table = counts(12)
    cost = Multinomial().fit(table)
    for start, end in segments(12, 1):
        pooled = table[start:end].sum(axis=0)
        expected = -xlogy(pooled, pooled / pooled.sum()).sum()
        assert cost.error(start, end) == pytest.approx(expected, abs=1e-6)


def test_counts_need_not_be_whole() -> None:
    table = counts(30)
    whole, parts = Multinomial().fit(table), Multinomial().fit(table * 0.3)
    for start, end in segments(30, 1):
        expected = 0.3 * whole.error(start, end)
        assert parts.error(start, end) == pytest.approx(expected, abs=1e-6)


def test_l2_is_that_of_ruptures_where_draws_are_equal() -> None:
    table = counts(12, draws=9)
    ours, theirs = L2().fit(table), CostL2().fit(table / 3)
    for start, end in segments(12, 1):
        assert ours.error(start, end) == pytest.approx(theirs.error(start, end), abs=1e-6)


def test_l2_weighs_rows_by_their_draws() -> None:
    table = np.array([[4.0, 0.0], [0.0, 0.0], [6.0, 6.0]])
    mean = np.array([10, 6]) / 16
    expected = 4 * np.sum(([1, 0] - mean) ** 2) + 12 * np.sum((0.5 - mean) ** 2)
    assert L2().fit(table).error(0, 3) == pytest.approx(expected, abs=1e-6)
    assert L2().fit(table).error(1, 2) == 0


def test_logit_linear_is_what_a_line_leaves() -> None:
    table = counts(14)
    positions = np.sort(np.random.default_rng(1).choice(100, size=14, replace=False))
    cost = LogitLinear(positions).fit(table)
    for start, end in segments(14, 2):
        expected = line_squares(table[start:end], positions[start:end].astype(np.float64))
        assert cost.error(start, end) == pytest.approx(expected, abs=1e-6)


def test_logit_linear_is_on_the_scale_of_the_log_likelihood() -> None:
    """Twice the cost of rows from one distribution is χ² with (rows − 2)(K − 1) degrees."""
    random = np.random.default_rng(2)
    costs = []
    for _ in range(300):
        table = random.multinomial(2000, [0.5, 0.3, 0.15, 0.05], size=10).astype(np.float64)
        costs.append(2 * LogitLinear().fit(table).error(0, 10))
    assert np.mean(costs) == pytest.approx(24, rel=0.05)


def test_a_line_over_thousands_of_positions_keeps_its_digits() -> None:
    rows = 4000
    share = 1 / (1 + np.exp(-np.linspace(-3, 3, rows)))
    table = np.random.default_rng(3).binomial(30, share).astype(np.float64)
    both = np.column_stack([table, 30 - table])
    cost = LogitLinear(np.arange(rows)).fit(both)
    for start in (0, 1900, 3950):
        expected = line_squares(both[start : start + 50], np.arange(50.0))
        assert cost.error(start, start + 50) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", COSTS)
def test_costs_add_up_exactly(name: str) -> None:
    cost: Cost = COSTS[name]().fit(counts(20))
    found = [cost.error(start, end) * SCALE for start, end in segments(20, 1)]
    assert any(found)
    assert all(value == int(value) for value in found)


@pytest.mark.parametrize("name", COSTS)
def test_rows_without_draws_cost_nothing(name: str) -> None:
    empty = np.zeros((1, 4))
    table = counts(5)
    behind = COSTS[name](np.arange(6)).fit(np.concatenate([table, empty]))
    assert behind.error(5, 6) == 0
    assert behind.error(0, 6) == pytest.approx(behind.error(0, 5), abs=1e-6)

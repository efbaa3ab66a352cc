"""Reported forks, jump probabilities and intervals against a recording."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from refork.stats.curves.fork_scores import (
    BINS,
    ForkScores,
    Matches,
    Reliability,
    change_steps,
    match,
)
from refork.stats.missing import Missing


def two(first: ArrayLike) -> NDArray[np.float64]:
    """Curves of two categories from the share of the first."""
    share = np.asarray(first, dtype=np.float64)
    return np.stack([share, 1 - share], axis=-1)


@dataclass(frozen=True)
class Steps:
    """A fit that is known at tokens 0, 4, 8 and 12, with change points."""

    curve: NDArray[np.float64]
    change_points: NDArray[np.int64] | None
    chosen: dict[str, float | str] = field(default_factory=dict)

    def mean(self, positions: ArrayLike) -> NDArray[np.float64]:
        return self.curve[np.asarray(positions, dtype=np.int64) // 4]

    def sd(self, positions: ArrayLike) -> None:
        return None


@dataclass(frozen=True)
class Joint(Steps):
    """A fit with a posterior: the curves given, over and over."""

    posterior: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 4, 2)))

    def draws(self, count: int, seed: int) -> NDArray[np.float64]:
        return self.posterior[np.arange(count) % len(self.posterior)]


GRID = np.array([0, 4, 8, 12])


def test_forks_are_intervals_of_tokens() -> None:
    matches = Matches()
    match(matches, np.array([[1, 4], [9, 12]]), np.array([3, 6, 30]), 1)
    assert (matches.reported, matches.right, matches.jumps, matches.hit) == (2, 1, 3, 1)
    match(matches, np.array([[1, 4], [9, 12]]), np.array([3, 6, 30]), 3)
    assert (matches.reported, matches.right, matches.jumps, matches.hit) == (4, 3, 6, 3)
    assert matches.precision == pytest.approx(0.75)
    assert matches.recall == pytest.approx(0.5)


def test_without_forks_or_jumps_there_is_no_share() -> None:
    matches = Matches()
    match(matches, np.empty((0, 2), np.int64), np.array([5]), 2)
    assert isinstance(matches.precision, Missing)
    assert matches.recall == 0
    nothing = Matches()
    match(nothing, np.array([[1, 1]]), np.empty(0, np.int64), 2)
    assert nothing.precision == 0
    assert isinstance(nothing.recall, Missing)


def test_change_points_count_where_the_estimate_moves() -> None:
    fit = Steps(two([0.5, 0.5, 0.9, 0.75]), np.array([4, 8, 12]))
    assert change_steps(fit, GRID, 0.10).tolist() == [1, 2]
    assert change_steps(fit, GRID, 0.20).tolist() == [1]
    assert change_steps(Steps(fit.curve, np.array([4])), GRID, 0.0).tolist() == []


def test_steps_are_binned_by_their_probability() -> None:
    reliability = Reliability()
    reliability.add(np.array([0.0, 0.05, 0.95, 1.0]), np.array([False, True, True, True]))
    reliability.add(np.array([0.55]), np.array([False]))
    assert reliability.steps.tolist() == [2, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert reliability.jumped.tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert reliability.probability[BINS - 1] == pytest.approx(1.95)


def counted(fit: Steps, reference: NDArray[np.float64], others: NDArray[np.int64]) -> ForkScores:
    scores = ForkScores()
    scores.add(fit, GRID, positions=GRID, reference=reference, others=others, seed=1)
    return scores


def test_a_posterior_is_judged_by_its_own_probabilities() -> None:
    curve = two([0.3, 0.3, 0.7, 0.7])
    others = np.array([[30, 70], [30, 70], [70, 30], [70, 30]])
    fit = Joint(curve, np.array([4]), posterior=curve[None])
    scores = counted(fit, curve, others)
    matches = scores.matches[0.20, 2]
    assert (matches.reported, matches.right, matches.jumps, matches.hit) == (1, 1, 1, 1)
    assert scores.reliability[0.20].steps.tolist() == [2] + [0] * (BINS - 2) + [1]
    assert scores.reliability[0.20].jumped.tolist() == [0] * (BINS - 1) + [1]


def test_without_a_posterior_only_forks_are_counted() -> None:
    curve = two([0.3, 0.3, 0.7, 0.7])
    others = np.full((4, 2), 50)
    scores = counted(Steps(curve, np.array([8])), curve, others)
    assert scores.matches[0.20, 2].right == 1
    assert not scores.reliability[0.20].steps.any()
    assert scores.coverage[0.9].seen == 0


def test_an_estimate_that_reports_no_forks_is_not_counted() -> None:
    curve = two([0.3, 0.3, 0.7, 0.7])
    scores = counted(Steps(curve, None), curve, np.full((4, 2), 50))
    assert scores.fits == 0
    assert scores.matches[0.10, 2].jumps == 0


def test_an_honest_posterior_covers_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    scores = ForkScores()
    for seed in range(300):
        truth, others = random.beta(4, 6, size=4), np.empty((4, 2), np.int64)
        others[:, 0] = random.binomial(1000, truth)
        others[:, 1] = 1000 - others[:, 0]
        seen = random.binomial(20, truth)
        posterior = random.beta(4 + seen, 6 + 20 - seen, size=(200, 4))
        fit = Joint(two(seen / 20), None, posterior=two(posterior))
        scores.add(fit, GRID, positions=GRID, reference=two(truth), others=others, seed=seed)
    for nominal, coverage in scores.coverage.items():
        assert coverage.seen == 300 * 8
        assert coverage.of_shares == pytest.approx(nominal, abs=0.04)
        assert coverage.of_curve == pytest.approx(nominal, abs=0.04)


def test_a_posterior_that_is_too_sure_does_not_cover() -> None:
    random = np.random.default_rng(6)
    truth = random.uniform(0.3, 0.7, size=4)
    others = np.stack([1000 * truth, 1000 - 1000 * truth], axis=1).astype(np.int64)
    sure = two(truth + 0.1 + random.normal(0, 0.005, size=(200, 4)))
    scores = counted(Joint(two(truth), None, posterior=sure), two(truth), others)
    assert scores.coverage[0.9].of_curve == 0


def test_positions_that_are_certain_or_without_draws_are_not_looked_at() -> None:
    curve = two([0.001, 0.5, 0.5, 0.999])
    others = np.array([[0, 50], [0, 0], [25, 25], [50, 0]])
    scores = counted(Joint(curve, None, posterior=curve[None]), curve, others)
    assert scores.coverage[0.5].seen == 2

"""Forks that an estimate reports, its jump probabilities and its intervals, against a recording.

A step leads from one position of the sampled grid to the next; on a coarse grid a fork lies
somewhere in its tokens. The reference is the curve of all recorded continuations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.estimator import Fit
from refork.stats.curves.forks import find_forks, intervals, jump_probability
from refork.stats.curves.reference import EPSILONS, jumps, total_variation
from refork.stats.missing import Quantity, share

WITHIN = (2, 10)
"""Tokens by which a reported fork may miss a reference jump."""
BINS = 10
"""Of jump probabilities, equally wide."""
NOMINAL = (0.5, 0.8, 0.9)
"""Probabilities of the intervals whose coverage is measured."""
DOUBT = 0.02
"""A category is in doubt where its mean is further than this from 0 and 1."""
POSTERIOR_DRAWS = 200


@runtime_checkable
class Sampled(Protocol):
    """A fit that draws whole curves from its posterior."""

    def draws(self, count: int, seed: int) -> NDArray[np.float64]:
        """Return curves [count, positions of the sampled grid, categories]."""


@dataclass
class Matches:
    """Reported forks, those near a reference jump, reference jumps, those near a reported fork."""

    reported: int = 0
    right: int = 0
    jumps: int = 0
    hit: int = 0

    @property
    def precision(self) -> Quantity:
        """Share of the reported forks that are near a jump."""
        return share(self.right, self.reported, "fork reported")

    @property
    def recall(self) -> Quantity:
        """Share of the jumps that are near a reported fork."""
        return share(self.hit, self.jumps, "jump of the reference")


@dataclass
class Reliability:
    """Steps by the probability of a jump that they were given, in bins: shape (`BINS`,) each."""

    steps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    probability: NDArray[np.float64] = field(default_factory=lambda: np.zeros(BINS))
    jumped: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, probability: NDArray[np.float64], jumped: NDArray[np.bool_]) -> None:
        """Count steps, shape (steps,), and whether the reference jumped there."""
        into = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        self.steps += np.bincount(into, minlength=BINS)
        self.probability += np.bincount(into, probability, minlength=BINS)
        self.jumped += np.bincount(into[jumped], minlength=BINS)


@dataclass
class Coverage:
    """Held-out shares in the intervals of the curve, in those of shares, and all looked at."""

    inside: int = 0
    predicted: int = 0
    seen: int = 0

    @property
    def of_curve(self) -> Quantity:
        """Coverage by the intervals of the curve; the held-out share's own noise counts against."""
        return share(self.inside, self.seen, "category in doubt")

    @property
    def of_shares(self) -> Quantity:
        """Coverage by intervals that allow for the noise of as many draws as were held out."""
        return share(self.predicted, self.seen, "category in doubt")


@dataclass
class ForkScores:
    """What was counted over the questions of one setting, by ε, tokens and nominal coverage.

    `fits` counts those that report forks: by a posterior, or by change points.
    """

    fits: int = 0
    matches: Mapping[tuple[float, int], Matches] = field(
        default_factory=lambda: {(e, w): Matches() for e in EPSILONS for w in WITHIN}
    )
    reliability: Mapping[float, Reliability] = field(
        default_factory=lambda: {epsilon: Reliability() for epsilon in EPSILONS}
    )
    coverage: Mapping[float, Coverage] = field(
        default_factory=lambda: {nominal: Coverage() for nominal in NOMINAL}
    )

    def add(
        self,
        fit: Fit,
        grid: NDArray[np.int64],
        *,
        positions: NDArray[np.int64],
        reference: NDArray[np.float64],
        others: NDArray[np.int64],
        seed: int,
    ) -> None:
        """Count one fit.

        Parameters
        ----------
        fit
            Curves fitted to draws at `grid`.
        grid
            Shape (G,): the sampled ones of `positions`.
        positions, reference
            Shapes (P,) and (P, K): the curve of all continuations.
        others
            Shape (P, K): counts of the draws that were not fitted.
        seed
            Of the posterior draws.
        """
        curves = fit.draws(POSTERIOR_DRAWS, seed) if isinstance(fit, Sampled) else None
        if curves is None and fit.change_points is None:
            return
        self.fits += 1
        taken = np.searchsorted(positions, grid)
        moved = total_variation(reference[taken[1:]], reference[taken[:-1]])
        for epsilon in EPSILONS:
            if curves is None:
                steps = change_steps(fit, grid, epsilon)
                found = np.stack([grid[:-1][steps] + 1, grid[1:][steps]], axis=1)
            else:
                self.reliability[epsilon].add(jump_probability(curves, epsilon), moved > epsilon)
                forks = [(one.first + 1, one.last) for one in find_forks(curves, grid, epsilon)]
                found = np.array(forks, dtype=np.int64).reshape(-1, 2)
            tokens = jumps(positions, reference, epsilon)
            for within in WITHIN:
                match(self.matches[epsilon, within], found, tokens, within)
        if curves is not None:
            self._cover(curves, others[taken], np.random.default_rng([seed, 1]))

    def _cover(
        self, curves: NDArray[np.float64], others: NDArray[np.int64], random: np.random.Generator
    ) -> None:
        """Count the held-out shares in the intervals, of categories in doubt."""
        total = np.broadcast_to(others.sum(axis=1, keepdims=True), others.shape)
        mean = curves.mean(axis=0)
        doubtful = (total > 0) & (mean > DOUBT) & (mean < 1 - DOUBT)
        curves, total = curves[:, doubtful], total[doubtful]
        shares = others[doubtful] / total
        drawn = random.binomial(total, np.clip(curves, 0, 1)) / total
        for nominal, coverage in self.coverage.items():
            low, high = intervals(curves, nominal)
            coverage.inside += int(np.count_nonzero((shares >= low) & (shares <= high)))
            low, high = intervals(drawn, nominal)
            coverage.predicted += int(np.count_nonzero((shares >= low) & (shares <= high)))
            coverage.seen += shares.size


def change_steps(fit: Fit, grid: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """Find the steps into a change point over which the estimate moves by more than ε."""
    points = fit.change_points
    if points is None:
        return np.empty(0, np.int64)
    steps = np.unique(np.searchsorted(grid, points)) - 1
    estimate = fit.mean(grid)
    return steps[total_variation(estimate[steps + 1], estimate[steps]) > epsilon]


def match(
    matches: Matches, found: NDArray[np.int64], tokens: NDArray[np.int64], within: int
) -> None:
    """Count forks, each an interval of tokens [forks, 2], against the tokens of jumps [jumps]."""
    gap = np.maximum(found[:, :1] - tokens, tokens - found[:, 1:])
    close = gap <= within
    matches.reported += len(found)
    matches.right += int(np.count_nonzero(close.any(axis=1)))
    matches.jumps += len(tokens)
    matches.hit += int(np.count_nonzero(close.any(axis=0)))

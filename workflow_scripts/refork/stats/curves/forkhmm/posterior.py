"""What a fit of ForkHMM knows of a question's curves: mean, median, error bars and joint draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refork.stats.curves.forkhmm.chain import Posterior
from refork.stats.curves.forkhmm.states import Floats, States
from refork.stats.curves.forkhmm.sticks import compose, deviation

POINTS = {"mean": 0.0, "middle": 0.5, "median": 1.0}
"""Point estimates by name: how far each lies from the posterior means to the medians."""


@dataclass(frozen=True)
class Regime:
    """One motion that the curves may have: how probable it is, and the sticks under it."""

    weight: float
    sticks: Sequence[Posterior]


@dataclass(frozen=True)
class ForkFit:
    """Posterior of one question's curves, given all its draws.

    A category's probability between two positions of the grid is interpolated in information time:
    it starts where the base token leads at the position before and ends at the position behind.
    """

    chosen: Mapping[str, float | str]
    positions: NDArray[np.int64]  # [positions]
    time: Floats  # [tokens] information up to each token
    order: NDArray[np.int64]  # of the categories
    grid: States
    regimes: Sequence[Regime]
    point: str = "mean"
    widen: float = 1.0  # factor of all deviations from the mean
    change_points: None = None

    def mean(self, positions: ArrayLike) -> Floats:
        """Estimate of o_t [queries, categories]: posterior means, or medians if so chosen.

        Means are best for probabilities and squared error, medians for total variation.
        """
        now, after = (self._point(states) for states in self._marginals())
        return self._between(np.asarray(positions), now, after)

    def sd(self, positions: ArrayLike) -> Floats:
        """Posterior standard deviation [queries, categories]."""
        now, after = (
            deviation(self._means(states), _mean(states, self.grid.points**2), self.order).T
            for states in self._marginals()
        )
        return self.widen * self._between(np.asarray(positions), now, after)

    def draws(self, count: int, seed: int) -> Floats:
        """Draw whole curves from the joint posterior: [count, positions of the grid, categories].

        The same seed gives the same draws.
        """
        random = np.random.default_rng(seed)
        sticks = len(self.order) - 1
        weights = [regime.weight for regime in self.regimes]
        numbers = random.multinomial(count, weights)
        states = np.empty((sticks, count, len(self.positions)), dtype=np.int64)
        end = 0
        for number, regime in zip(numbers, self.regimes, strict=True):
            first, end = end, end + int(number)
            for place, stick in enumerate(regime.sticks):
                if number:
                    states[place, first:end] = stick.draw(int(number), random)
        # Within its cell a draw stands at the same place everywhere, so that what stays in a cell
        # does not move.
        places = _within_cells(states, random.random((sticks, count, 1)), self.widen)
        places = np.clip(places, 0, len(self.grid))
        return np.moveaxis(compose(self.grid.at(places), self.order), 0, 2)

    def _marginals(self) -> tuple[Floats, Floats]:
        """Posterior of o_t and of s_{t+1} over all regimes, [sticks, positions, states]."""
        shape = len(self.order) - 1, len(self.positions), len(self.grid)
        now, after = np.zeros(shape), np.zeros(shape)
        for regime in self.regimes:
            for place, stick in enumerate(regime.sticks):
                now[place] += regime.weight * stick.now
                after[place] += regime.weight * stick.after
        return now, after

    def _point(self, states: Floats) -> Floats:
        """Point estimate [positions, categories] from the posterior of the sticks."""
        share = POINTS[self.point]
        point = (1 - share) * self._means(states)
        if share:
            point += share * self._medians(states)
        return compose(point, self.order).T

    def _means(self, states: Floats) -> Floats:
        return _mean(states, self.grid.points)

    def _medians(self, states: Floats) -> Floats:
        """Give the median of each [states] row, read within its cell by angle."""
        below = np.cumsum(states, axis=-1)
        cell = np.argmax(below >= 0.5, axis=-1)
        mass = np.take_along_axis(states, cell[..., None], axis=-1)[..., 0]
        over = np.take_along_axis(below, cell[..., None], axis=-1)[..., 0] - 0.5
        return self.grid.at(cell + 1 - over / mass)

    def _between(self, queries: NDArray[np.int64], now: Floats, after: Floats) -> Floats:
        """Read curves known at the grid's positions at other tokens; constant beyond the ends."""
        token = np.clip(queries, 0, len(self.time) - 1)
        left = np.clip(np.searchsorted(self.positions, token, side="right") - 1, 0, None)
        right = np.minimum(left + 1, len(self.positions) - 1)
        start = self.time[self.positions[left]]
        span = self.time[self.positions[right]] - start
        share = (self.time[token] - start) / np.maximum(span, 1e-12)
        read = after[left] + (now[right] - after[left]) * np.clip(share, 0, 1)[:, None]
        read[queries >= self.positions[-1]] = after[-1]
        # At a position itself, and before the first, the curve is o_t and not yet s_{t+1}.
        at = (queries == self.positions[left]) | (queries < self.positions[0])
        read[at] = now[left[at]]
        return read


def _within_cells(states: NDArray[np.int64], offset: Floats, widen: float) -> Floats:
    """Spread draws of cells, [sticks, draws, positions], over the cells, by a share of each.

    A spread over a cell adds 1/12 to the variance, in cells, which the states' own variance holds
    already: draws are drawn towards their mean by as much. Where nearly all draws are in one cell
    nothing is known within it, and they fill it. Deviations from the mean are widened at last.
    """
    mean = states.mean(axis=1, keepdims=True) + 0.5
    variance = states.var(axis=1, keepdims=True)
    shrink = np.sqrt(np.maximum(variance, 1 / 12) / (variance + 1 / 12))
    return np.asarray(mean + widen * shrink * (states + offset - mean))


def _mean(states: Floats, values: Floats) -> Floats:
    """Average values [states] over the last axis.

    A product of BLAS would end in other bits wherever its arrays happen to lie in memory.
    """
    return np.asarray((states * values).sum(axis=-1))

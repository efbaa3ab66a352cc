"""What a fit of ForkHMM knows of a question's curves: mean, median, error bars and joint draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refork.stats.curves.forkhmm.chain import Posterior
from refork.stats.curves.forkhmm.states import Floats, States
from refork.stats.curves.forkhmm.sticks import compose, deviation


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
    change_points: None = None

    def mean(self, positions: ArrayLike) -> Floats:
        """Estimate of o_t [queries, categories]: posterior means, or medians if so chosen.

        Means are best for probabilities and squared error, medians for total variation.
        """
        summary = self._medians if self.point == "median" else self._means
        now, after = (compose(summary(states), self.order).T for states in self._marginals())
        return self._between(np.asarray(positions), now, after)

    def sd(self, positions: ArrayLike) -> Floats:
        """Posterior standard deviation [queries, categories]."""
        now, after = (
            deviation(self._means(states), states @ self.grid.points**2, self.order).T
            for states in self._marginals()
        )
        return self._between(np.asarray(positions), now, after)

    def draws(self, count: int, seed: int) -> Floats:
        """Draw whole curves from the joint posterior: [count, positions of the grid, categories].

        The same seed gives the same draws. Within a cell of the grid of states a draw stands at
        the same place at all positions, so that a curve that stays within its cell does not move.
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
        offset = random.random((sticks, count, 1))
        # Each draw is as good as any other, so that their order need not be shuffled.
        return np.moveaxis(compose(self.grid.within(states, offset), self.order), 0, 2)

    def _marginals(self) -> tuple[Floats, Floats]:
        """Posterior of o_t and of s_{t+1} over all regimes, [sticks, positions, states]."""
        shape = len(self.order) - 1, len(self.positions), len(self.grid)
        now, after = np.zeros(shape), np.zeros(shape)
        for regime in self.regimes:
            for place, stick in enumerate(regime.sticks):
                now[place] += regime.weight * stick.now
                after[place] += regime.weight * stick.after
        return now, after

    def _means(self, states: Floats) -> Floats:
        return states @ self.grid.points

    def _medians(self, states: Floats) -> Floats:
        """Give the median of each [states] row, read within its cell by angle."""
        below = np.cumsum(states, axis=-1)
        cell = np.argmax(below >= 0.5, axis=-1)
        mass = np.take_along_axis(states, cell[..., None], axis=-1)[..., 0]
        over = np.take_along_axis(below, cell[..., None], axis=-1)[..., 0] - 0.5
        return self.grid.within(cell, 1 - over / mass)

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

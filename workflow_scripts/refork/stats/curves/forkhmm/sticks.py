"""Sticks: a multinomial as independent binomials.

Categories stand in order of their counts. Stick j is the probability of category j where none of
those before it came: o_j = x_j Π_{i<j} (1 − x_i). It sees c_j hits among c_j + c_{j+1} + … trials;
the product of these binomial likelihoods is the multinomial's, so every stick is a chain by itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm.states import Floats, States

STARTS = ((0.8, 0.4), (0.5, 0.5))
"""Beta parameters at the first position: of the first stick, and of the others."""


def starts(grid: States, sticks: int) -> list[Floats]:
    """Probability of every state at the first position, before any draw, for each stick."""
    first, other = (grid.beta(*parameters, 1e-6) for parameters in STARTS)
    return [other if stick else first for stick in range(sticks)]


@dataclass(frozen=True)
class Seen:
    """What a stick saw at every position; shape (positions,), not always whole numbers."""

    hits: Floats
    trials: Floats

    def likelihood(self, grid: States) -> Floats:
        """x^hits (1 − x)^(trials − hits) of every state x, the largest scaled to 1.

        Shape (positions, states).
        """
        misses = self.trials - self.hits
        log = np.outer(self.hits, np.log(grid.points)) + np.outer(misses, np.log1p(-grid.points))
        return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


def order_of(counts: Floats) -> NDArray[np.int64]:
    """Order the categories of counts [positions, categories]: the most frequent first."""
    return np.argsort(-counts.sum(axis=0), kind="stable")


def sticks_of(counts: Floats, order: NDArray[np.int64]) -> list[Seen]:
    """Give what each stick saw of counts [positions, categories]."""
    hits = counts[:, order].T
    trials = hits[::-1].cumsum(axis=0)[::-1]
    return [Seen(*of) for of in zip(hits[:-1], trials[:-1], strict=True)]


def compose(sticks: Floats, order: NDArray[np.int64]) -> Floats:
    """Turn sticks [categories − 1, …] into probabilities [categories, …] in their own order."""
    parts = _left_of(1 - sticks)
    parts[:-1] *= sticks
    composed = np.empty_like(parts)
    composed[order] = parts
    return composed


def deviation(mean: Floats, square: Floats, order: NDArray[np.int64]) -> Floats:
    """Give the standard deviation of each category, from mean and mean square of the sticks.

    Sticks are independent, so E o_j² = E x_j² Π E (1 − x_i)²; no approximation.

    Parameters
    ----------
    mean, square
        Shape (categories − 1, …).
    order
        Of the categories.
    """
    parts = _left_of(1 - 2 * mean + square)
    parts[:-1] *= square
    second = np.empty_like(parts)
    second[order] = parts
    return np.sqrt(np.maximum(second - compose(mean, order) ** 2, 0.0))


def _left_of(taken: Floats) -> Floats:
    """Give the products of the rows before each row, and of all rows."""
    return np.concatenate([np.ones((1, *taken.shape[1:])), np.cumprod(taken, axis=0)])

"""Sticks: a multinomial as independent binomials.

Categories stand in order of their counts. Stick j is the probability of category j where none of
those before it came: o_j = x_j Π_{i<j} (1 − x_i). It sees c_j hits among c_j + c_{j+1} + … trials;
the product of these binomial likelihoods is the multinomial's, so every stick is a chain by itself.
"""

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm.states import Floats, States


def order_of(counts: Floats) -> NDArray[np.int64]:
    """Order the categories of counts [positions, categories]: the most frequent first."""
    return np.argsort(-counts.sum(axis=0), kind="stable")


def hits_and_trials(counts: Floats, order: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Give what each stick saw: two arrays [categories − 1, positions]."""
    hits = counts[:, order].T
    trials = hits[::-1].cumsum(axis=0)[::-1]
    return hits[:-1], trials[:-1]


def compose(sticks: Floats, order: NDArray[np.int64]) -> Floats:
    """Turn sticks [categories − 1, …] into probabilities [categories, …] in their own order."""
    parts = _left_of(1 - sticks)
    parts[:-1] *= sticks
    composed = np.empty_like(parts)
    composed[order] = parts
    return composed


def deviation(mean: Floats, square: Floats, order: NDArray[np.int64]) -> Floats:
    """Standard deviation of each category, from mean and mean square of the sticks.

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


def emissions(hits: Floats, trials: Floats, grid: States) -> tuple[Floats, float]:
    """Likelihood x^hits (1 − x)^(trials − hits) of every state, its largest value scaled to 1.

    Parameters
    ----------
    hits, trials
        Shape (positions,); need not be whole numbers.
    grid
        The states.

    Returns
    -------
    The likelihoods [positions, states], and the logarithm of all that was scaled away.
    """
    log = np.outer(hits, np.log(grid.points)) + np.outer(trials - hits, np.log1p(-grid.points))
    top = log.max(axis=1, keepdims=True)
    return np.exp(log - top), float(top.sum())

"""Forks and error bars of outcome curves, from joint draws of whole curves.

A fork is a step between neighbouring positions over which o_t moves further than ε in total
variation. How probable it is must come from curves drawn as a whole: the difference of two
posterior means shrinks with what is unknown, and marginal error bars leave out that neighbours move
together. Between positions of a coarse grid a fork lies in an interval of tokens, and nothing tells
where in it.

Curves drawn have shape (draws, positions, categories) throughout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.reference import total_variation

Floats = NDArray[np.float64]

EDGE = 6e-4
"""A bound nearer to 0 or 1 than this is 0 or 1: no number of draws tells such rates from them."""
WIDEST = 12
"""Steps that are taken together at most: beyond it, it is drift that adds up, not one fork."""


@dataclass(frozen=True)
class Fork:
    """Tokens first ≤ t < last with whose choice a curve forks: one where the grid is dense.

    o_t is the distribution before token t is chosen.
    """

    first: int  # the last position that is surely before the fork
    last: int  # the first position that is surely behind it
    probability: float
    distance: float  # mean total variation over the interval, in the draws that fork there


@dataclass(frozen=True)
class Survival:
    """Pooled over questions, by step of a common axis: how long curves go without a fork.

    Arrays have the shape of the longest question's steps.
    """

    at_risk: Floats  # expected questions that reach the step without a fork
    hazard: Floats  # probability of a fork in the step, given none before; NaN where none are left
    surviving: Floats  # probability of no fork in this step or before


def jump_probability(curves: Floats, epsilon: float) -> Floats:
    """P(TVD(o_t, o_{t+1}) > ε) for each step between neighbouring positions, (positions − 1,)."""
    return np.asarray(_forked(curves, epsilon).mean(axis=0))


def intervals(curves: Floats, level: float) -> tuple[Floats, Floats]:
    """Give equal-tailed intervals of a nominal level in (0, 1): low and high, (positions, K)."""
    if not 0 < level < 1:
        raise ValueError(f"level: {level:g}; a probability between 0 and 1 is wanted")
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.where(low < EDGE, 0.0, low), np.where(high > 1 - EDGE, 1.0, high)


def find_forks(
    curves: Floats, positions: NDArray[np.int64], epsilon: float, *, least: float = 0.5
) -> list[Fork]:
    """Find the intervals of tokens in which a fork is at least as probable as `least`.

    The draws may agree that there is a fork and differ by a few tokens where. Steps next to each
    other in which forks are possible at all are therefore taken together, as few as hold a fork
    with that probability: ever wider intervals are tried, the most probable of a width first, and
    no two overlap.

    Parameters
    ----------
    curves
        Joint draws.
    positions
        Shape (positions,): tokens of the grid.
    epsilon
        Total variation beyond which a step is a fork.
    least
        Probability from which an interval is reported.

    Returns
    -------
    Forks in the order of their tokens.
    """
    forked = _forked(curves, epsilon)
    steps = forked.shape[1]
    free = forked.sum(axis=0) > 0
    before = np.concatenate([np.zeros((len(forked), 1), np.int64), forked.cumsum(axis=1)], axis=1)
    found: list[tuple[int, int, float]] = []
    for width in range(1, min(WIDEST, steps) + 1):
        holds = (before[:, width:] > before[:, :-width]).mean(axis=0)
        for start in np.argsort(-holds, kind="stable"):
            if holds[start] < least:
                break
            if free[start : start + width].all():
                free[start : start + width] = False
                found.append((int(start), int(start) + width, float(holds[start])))
    return [
        Fork(
            first=int(positions[start]),
            last=int(positions[end]),
            probability=probability,
            distance=_distance(curves, forked, start, end),
        )
        for start, end, probability in sorted(found)
    ]


def first_fork(curves: Floats, epsilon: float) -> Floats:
    """Probability that the first fork is in each step, (positions − 1,); what is left has none."""
    forked = _forked(curves, epsilon)
    first = forked & (forked.cumsum(axis=1) == 1)
    return np.asarray(first.mean(axis=0))


def survival(first_forks: Sequence[Floats]) -> Survival:
    """Pool the first forks of questions: hazard of a step, and survival of 'no fork yet'.

    A question is at risk in its steps until its first fork; behind its last step it is censored.
    Survival is the product of (1 − hazard), the estimator of Kaplan and Meier (JASA 53, 1958)
    with probabilities in the place of counts.

    Parameters
    ----------
    first_forks
        For each question the probability that its first fork is in each step, as of `first_fork`;
        steps of all questions lie on one axis, from its start.
    """
    length = max((len(one) for one in first_forks), default=0)
    forks, at_risk = np.zeros(length), np.zeros(length)
    for one in first_forks:
        forks[: len(one)] += one
        at_risk[: len(one)] += 1 - np.concatenate([[0.0], np.cumsum(one)[:-1]])
    hazard = np.full(length, np.nan)
    np.divide(forks, at_risk, out=hazard, where=at_risk > 1e-9)
    hazard = np.minimum(hazard, 1)  # sums of shares are 1 but for their last bits
    return Survival(at_risk, hazard, np.cumprod(1 - np.nan_to_num(hazard)))


def _forked(curves: Floats, epsilon: float) -> NDArray[np.bool_]:
    """Tell for every draw in which steps it forks, (draws, positions − 1)."""
    return np.asarray(total_variation(curves[:, 1:], curves[:, :-1]) > epsilon)


def _distance(curves: Floats, forked: NDArray[np.bool_], start: int, end: int) -> float:
    moved = total_variation(curves[:, end], curves[:, start])
    return float(moved[forked[:, start:end].any(axis=1)].mean())

"""Tests of the excess of flips and of the bias of the credit (arXiv 2606.15621)."""

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from refork.stats.credit import Floats, Integers, Mask
from refork.stats.missing import Missing, Quantity

NORMAL_95 = 1.96


@dataclass(frozen=True)
class ClusteredExcess:
    """Excess of flips by problem: its mean, its t and how many problems went which way.

    `problems` counts those that have eligible pivots; in `worse` ones the treatment flipped more.
    """

    problems: int
    worse: int
    better: int
    equal: int
    mean: Quantity
    t: Quantity


@dataclass(frozen=True)
class McNemar:
    """Pivots flipped by one pass only, and z = (b − c) / √(b + c)."""

    treatment_only: int
    floor_only: int
    z: Quantity


@dataclass(frozen=True)
class Bias:
    """Mean shift of the credit over `n` pivots, its t, and mean ± 1.96 standard errors."""

    n: int
    mean: Quantity
    t: Quantity
    low: Quantity
    high: Quantity


def clustered_excess(
    treatment_flipped: Mask, floor_flipped: Mask, among: Mask, problem: Integers
) -> ClusteredExcess:
    """Excess of flips as a mean over problems, those with no pivot in `among` left out.

    All arrays have shape (pivots,); `problem` numbers the problems from 0.
    """
    problems = int(problem.max()) + 1 if len(problem) else 0

    def by_problem(mask: Mask) -> Integers:
        return np.bincount(problem[mask & among], minlength=problems)

    pivots = by_problem(among)
    surplus = by_problem(treatment_flipped) - by_problem(floor_flipped)
    present = pivots > 0
    pivots, surplus = pivots[present], surplus[present]
    mean, error = _mean_and_error(surplus / pivots, "problems with eligible pivots")
    return ClusteredExcess(
        problems=len(pivots),
        worse=int(np.count_nonzero(surplus > 0)),
        better=int(np.count_nonzero(surplus < 0)),
        equal=int(np.count_nonzero(surplus == 0)),
        mean=mean,
        t=_t(mean, error),
    )


def mcnemar(treatment_flipped: Mask, floor_flipped: Mask, among: Mask) -> McNemar:
    """McNemar's test of the two passes' flips, paired by pivot."""
    b = int(np.count_nonzero(treatment_flipped & ~floor_flipped & among))
    c = int(np.count_nonzero(floor_flipped & ~treatment_flipped & among))
    z = (b - c) / sqrt(b + c) if b + c else Missing("no pivot flipped in one pass only")
    return McNemar(b, c, z)


def bias(reference: Floats, treatment: Floats, among: Mask) -> Bias:
    """Mean of Â_treatment − Â_reference over the pivots in `among`."""
    shift = treatment[among] - reference[among]
    mean, error = _mean_and_error(shift, "eligible pivots")
    t = _t(mean, error)
    if isinstance(mean, Missing) or isinstance(error, Missing):
        low = high = error
    else:
        low, high = mean - NORMAL_95 * error, mean + NORMAL_95 * error
    return Bias(len(shift), mean, t, low, high)


def _mean_and_error(values: Floats, of_what: str) -> tuple[Quantity, Quantity]:
    """Mean and its standard error, s / √n with s² over n − 1."""
    n = len(values)
    if n == 0:
        return Missing(f"no {of_what}"), Missing(f"no {of_what}")
    # Exact rational sums over the few distinct values: the order of the pivots changes no digit.
    distinct, times = np.unique(values, return_counts=True)
    weighted = list(zip(map(Fraction, distinct.tolist()), times.tolist(), strict=True))
    mean = sum((value * count for value, count in weighted), Fraction()) / n
    if n == 1:
        return float(mean), Missing(f"one of the {of_what} alone: no spread to judge by")
    # Differences of ratios of small whole numbers: what differs at all differs by far more.
    if np.ptp(distinct) <= 8 * np.finfo(np.float64).eps:
        return float(mean), 0.0
    squares = sum((count * (value - mean) ** 2 for value, count in weighted), Fraction())
    return float(mean), sqrt(squares / (n - 1)) / sqrt(n)


def _t(mean: Quantity, error: Quantity) -> Quantity:
    if isinstance(mean, Missing):
        return mean
    if isinstance(error, Missing):
        return error
    return mean / error if error else Missing("no variance: all values are equal")

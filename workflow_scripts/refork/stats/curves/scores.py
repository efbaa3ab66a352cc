"""Errors of an estimated curve against draws that it has not seen.

A block of S draws is fitted and scored against the histogram of the other draws of the same
positions (leave-replicate-out). Errors are averaged over positions, then over the replicates of a
question, then over questions. Source: arXiv 2608.19611; the debiased error removes the reference's
own noise in expectation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from refork.stats.bootstrap import CONFIDENCE
from refork.stats.curves.mixture import filled
from refork.stats.curves.reference import EPSILONS, total_variation
from refork.stats.missing import Missing, Quantity

FLOOR = 1e-4
"""Share that is mixed into an estimate before its logarithm is taken: raw curves hold zeros."""

TVD = "tvd"
L2 = "l2"
LOGLIK = "loglik"
NOISE = "noise"
"""Σ_k o(1 − o), averaged over positions: the squared error of a single raw draw."""
FLAT = f"tvd_flat_{EPSILONS[0]:.2f}"
JUMPS = {epsilon: f"tvd_jump_{epsilon:.2f}" for epsilon in EPSILONS}

Scores: TypeAlias = Mapping[str, float]
"""Errors by name; NaN where a question has no position of a region."""


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference over questions and its 95 % t interval."""

    questions: int
    mean: Quantity
    low: Quantity
    high: Quantity


def score(
    estimate: NDArray[np.float64],
    others: NDArray[np.int64],
    regions: Mapping[float, NDArray[np.bool_]],
) -> dict[str, float]:
    """Score one fit of one question.

    Parameters
    ----------
    estimate
        Shape (P, K): the estimated curve.
    others
        Shape (P, K): counts of the draws that were not fitted, two at least at a position that has
        any. A position without draws is scored against the next one.
    regions
        For each of `EPSILONS` the positions near a reference jump, shape (P,).

    Returns
    -------
    `tvd`, `tvd_jump_ε`, `tvd_flat_0.10`, `l2`, `loglik` (nat a draw) and `noise`.
    """
    total = others.sum(axis=1)
    drawn = total > 0
    size = np.where(drawn, total, 1)
    reference = filled(others / size[:, None], drawn)
    size = filled(size[:, None].astype(np.float64), drawn)[:, 0]
    distance = total_variation(estimate, reference)
    variance = (reference * (1 - reference)).sum(axis=1)
    error = ((estimate - reference) ** 2).sum(axis=1) - variance / (size - 1)
    floored = (estimate + FLOOR) / (1 + FLOOR * estimate.shape[1])
    return {
        TVD: float(distance.mean()),
        **{name: _mean(distance[regions[epsilon]]) for epsilon, name in JUMPS.items()},
        FLAT: _mean(distance[~regions[EPSILONS[0]]]),
        L2: float(error.mean()),
        LOGLIK: float((reference * np.log(floored)).sum(axis=1).mean()),
        NOISE: float((variance * size / (size - 1)).mean()),
    }


def average(scores: Sequence[Scores]) -> dict[str, float]:
    """Average the replicates of one question."""
    return {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}


def over_questions(questions: Sequence[Scores], name: str) -> Quantity:
    """Average an error over the questions that have it."""
    values = _present(questions, name)
    return float(values.mean()) if len(values) else Missing("no question has such a position")


def effective_samples(questions: Sequence[Scores], size: int) -> Quantity:
    """Say how many times `size` raw draws a position would need for the same debiased error.

    The error of n raw draws at every position is noise / n. At a stride above 1 raw draws carry
    the error of interpolation as well, so the multiplier of `raw` itself is not 1 there.
    """
    error = float(np.mean([one[L2] for one in questions]))
    noise = float(np.mean([one[NOISE] for one in questions]))
    if error <= 0:
        return Missing("the debiased error is not above 0: the reference is too noisy to tell")
    return noise / error / size


def paired_difference(
    questions: Sequence[Scores], baseline: Sequence[Scores], name: str
) -> PairedDifference:
    """Compare two estimators on the same questions, in the same order: the first minus the other.

    Questions that lack the error are left out; the interval is Student's, questions independent.
    """
    difference = np.array([one[name] for one in questions]) - [one[name] for one in baseline]
    difference = difference[~np.isnan(difference)]
    number = len(difference)
    if number == 0:
        nothing = Missing("no question has such a position")
        return PairedDifference(0, nothing, nothing, nothing)
    mean = float(difference.mean())
    if number == 1:
        alone = Missing("one question alone: no spread to judge by")
        return PairedDifference(1, mean, alone, alone)
    error = float(difference.std(ddof=1)) / sqrt(number)
    reach = float(stdtrit(number - 1, (1 + CONFIDENCE) / 2)) * error
    return PairedDifference(number, mean, mean - reach, mean + reach)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _present(questions: Sequence[Scores], name: str) -> NDArray[np.float64]:
    values = np.array([one[name] for one in questions], dtype=np.float64)
    return values[~np.isnan(values)]

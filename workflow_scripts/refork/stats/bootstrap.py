"""Intervals for a rate whose observations come in problems: draws of one problem are alike.

Source: A. C. Cameron, J. B. Gelbach and D. L. Miller, Bootstrap-based improvements for inference
with clustered errors, Review of Economics and Statistics 90 (2008), doi:10.1162/rest.90.3.414: the
pairs cluster bootstrap draws whole clusters with replacement.

A rate is a ratio of sums, Σ part / Σ whole over the problems. Every resample draws as many problems
as there are and takes the ratio anew; the interval runs between percentiles of these ratios.

Where all observations are alike every resample says the same, and an interval of no width would
claim certainty. There the bound is the exact one of Clopper and Pearson (Biometrika 26, 1934,
doi:10.1093/biomet/26.4.404), with problems as its observations: n problems in which all agreed are
seen with probability pⁿ where a share p of problems is such, so p ≥ α^(1/n) at confidence 1 − α.

Simulated coverage of the nominal 95 %: at a rate of .7 92 to 95 % with 20, 40 and 100 problems; at
a rate of .95, where few problems differ at all, 86 % with 20, 92 % with 40, 95 % with 100.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refork.stats.credit import Integers
from refork.stats.missing import Missing

CONFIDENCE = 0.95
RESAMPLES = 10_000
_CELLS = 2**20
"""Problems drawn at a time, over all resamples: what bounds the memory."""


@dataclass(frozen=True)
class Interval:
    """Bounds of a rate in [0, 1].

    `one_sided` tells that all observations are alike: one bound is the rate itself, the other the
    exact bound on the share of problems.
    """

    low: float
    high: float
    one_sided: bool = False


def clustered_interval(
    part: Integers,
    whole: Integers,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval | Missing:
    """Give an interval for Σ part / Σ whole.

    Parameters
    ----------
    part, whole
        Shape (problems,): of `whole` observations of a problem, so many count. Problems without
        observations are left out.
    confidence
        Probability, in (0, 1), with which the interval holds the rate.
    resamples, seed
        How many resamples are drawn, and the seed of the draws.
    """
    observed = whole > 0
    part, whole = part[observed], whole[observed]
    problems = len(part)
    if problems < 2:
        return Missing("one problem alone: no spread to judge by" if problems else "no problems")
    bound = float((1 - confidence) ** (1 / problems))
    if not part.any():
        return Interval(0.0, 1 - bound, one_sided=True)
    if np.array_equal(part, whole):
        return Interval(bound, 1.0, one_sided=True)
    if np.all(part * whole[0] == part[0] * whole):
        return Missing("the rate of all problems is the same: no spread to judge by")
    rates = _resampled_rates(part, whole, resamples, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(rates, [tail, 1 - tail])
    return Interval(float(low), float(high))


def _resampled_rates(
    part: Integers, whole: Integers, resamples: int, seed: int
) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    problems = len(part)
    rates = np.empty(resamples)
    rows = max(_CELLS // problems, 1)
    for start in range(0, resamples, rows):
        # A row of numbers of problems is one resample.
        drawn = random.integers(problems, size=(min(rows, resamples - start), problems))
        rates[start : start + len(drawn)] = part[drawn].sum(axis=1) / whole[drawn].sum(axis=1)
    return rates

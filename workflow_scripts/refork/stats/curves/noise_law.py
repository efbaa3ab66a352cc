"""How the noise of raw curves falls with the number of draws, beside exact multinomial draws.

Two independent blocks of S draws of the same curve differ by their noise alone. Their total
variation distance falls as 1/√S where S draws resolve the curve's shares, and slower where shares
are below 1/S; draws that are independent and alike follow the multinomial law either way. Source:
arXiv 2608.19611, whose sets of 1,000 draws have a log-log slope of −.49.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from refork.stats.bootstrap import CONFIDENCE, RESAMPLES
from refork.stats.curves.mixture import MixtureDraws
from refork.stats.curves.reference import total_variation
from refork.stats.missing import Missing, Quantity

SAMPLES = (5, 10, 20, 50, 100)
"""Draws a block at which the law is measured."""


@dataclass(frozen=True)
class Bounded:
    """A figure and its 95 % interval: percentiles of a bootstrap that draws whole questions."""

    value: Quantity
    low: Quantity
    high: Quantity


@dataclass(frozen=True)
class NoiseLaw:
    """The law of one set of questions; the tuples have an entry for each of `samples`.

    `distance` is the mean distance of two blocks, `null` the same of multinomial draws from the
    histogram of all draws, `ratio` the first over the second; `slope` is that of log distance
    against log S, `null_slope` that of the null.
    """

    questions: int
    samples: tuple[int, ...]
    distance: tuple[float, ...]
    null: tuple[float, ...]
    ratio: tuple[Bounded, ...]
    slope: Bounded
    null_slope: Quantity


def replicate_distance(draws: MixtureDraws, size: int) -> float:
    """Mean distance of disjoint pairs of blocks of `size` draws, over pairs and positions."""
    pairs = draws.outcome.shape[1] // (2 * size)
    drawn = draws.drawn
    distances = [
        total_variation(
            draws.counts(first, size)[drawn] / size, draws.counts(first + size, size)[drawn] / size
        ).mean()
        for first in range(0, 2 * size * pairs, 2 * size)
    ]
    return float(np.mean(distances))


def null_distance(draws: MixtureDraws, size: int) -> float:
    """Expect so much between two blocks of `size` multinomial draws from the histogram of all."""
    table = _null_table(size, draws.outcome.shape[1])
    return float(table[draws.counts()[draws.drawn]].sum(axis=1).mean())


def noise_law(
    distance: NDArray[np.float64],
    null: NDArray[np.float64],
    samples: Sequence[int],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> NoiseLaw:
    """Pool the questions of a set.

    Parameters
    ----------
    distance, null
        Shape (questions, samples): `replicate_distance` and `null_distance` of every question.
    samples
        Draws a block, ascending.
    resamples, seed
        How many resamples of the questions the intervals are taken from, and their seed.
    """
    questions = len(distance)
    random = np.random.default_rng(seed)
    chosen = random.integers(questions, size=(resamples, questions))
    times = np.stack([np.bincount(row, minlength=questions) for row in chosen])
    drawn, drawn_null = times @ distance / questions, times @ null / questions
    mean, mean_null = distance.mean(axis=0), null.mean(axis=0)
    return NoiseLaw(
        questions=questions,
        samples=tuple(samples),
        distance=tuple(mean.tolist()),
        null=tuple(mean_null.tolist()),
        ratio=tuple(
            _bounded(
                _ratio(mean[at], mean_null[at]), _ratio(drawn[:, at], drawn_null[:, at]), questions
            )
            for at in range(len(samples))
        ),
        slope=_bounded(_slope(mean, samples), _slope(drawn, samples), questions),
        null_slope=_known(float(_slope(mean_null, samples))),
    )


def measured_law(questions: Sequence[MixtureDraws]) -> NoiseLaw | Missing:
    """Measure the law at those of `SAMPLES` of which every question has two blocks."""
    most = min(draws.outcome.shape[1] for draws in questions) // 2
    samples = [size for size in SAMPLES if size <= most]
    if not samples:
        return Missing(f"blocks of {SAMPLES[0]} draws are wanted, two at least")
    return noise_law(
        np.array([[replicate_distance(draws, size) for size in samples] for draws in questions]),
        np.array([[null_distance(draws, size) for size in samples] for draws in questions]),
        samples,
    )


@lru_cache(maxsize=64)
def _null_table(size: int, pool: int) -> NDArray[np.float64]:
    """Part of one category in the expected distance, by its count 0 … `pool` in the histogram.

    For independent X and Y of one law on the whole numbers E|X − Y| = 2 Σ_x F(x)(1 − F(x)).
    """
    below = bdtr(np.arange(size)[:, None], size, np.arange(pool + 1)[None] / pool)
    return np.asarray((below * (1 - below)).sum(axis=0) / size)


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(part / whole)


def _slope(distance: NDArray[np.float64], samples: Sequence[int]) -> NDArray[np.float64]:
    """Least-squares slope of log distance against log S, over the last axis."""
    across = np.log(samples) - np.log(samples).mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.log(distance) @ across / (across @ across))


def _bounded(value: NDArray[np.float64], resampled: NDArray[np.float64], questions: int) -> Bounded:
    known = _known(float(value))
    if isinstance(known, Missing):
        return Bounded(known, known, known)
    if questions == 1:
        alone = Missing("one question alone: no spread to judge by")
        return Bounded(known, alone, alone)
    tail = (1 - CONFIDENCE) / 2
    # Resamples of questions that never differ say nothing of the law.
    low, high = np.quantile(resampled[np.isfinite(resampled)], [tail, 1 - tail])
    return Bounded(known, float(low), float(high))


def _known(value: float) -> Quantity:
    return value if np.isfinite(value) else Missing("blocks do not differ, or there is one size")

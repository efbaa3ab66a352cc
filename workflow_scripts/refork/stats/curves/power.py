"""The power study: what an estimator makes of a few recorded draws, judged by all the others."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.estimator import GIVEN, SELECTION, Estimator
from refork.stats.curves.fork_scores import ForkScores
from refork.stats.curves.mixture import MixtureDraws, Recording
from refork.stats.curves.reference import jump_regions
from refork.stats.curves.scores import Scores, average, score

SECONDS: Final = "seconds"
"""Name of the processor time of one fit and its curve, beside the errors of `scores`."""


@dataclass(frozen=True)
class PowerQuestion:
    """One recorded question: its mixture draws, its curve of all continuations, and its jumps."""

    draws: MixtureDraws
    curve: NDArray[np.float64]
    regions: Mapping[float, NDArray[np.bool_]]


@dataclass(frozen=True)
class Setting:
    """How much of a recording is used: every `stride`-th position, `samples` draws at each."""

    stride: int
    samples: int


def power_question(recording: Recording, seed: tuple[int, int], size: int) -> PowerQuestion:
    """Draw `size` mixture draws of every position of a recording."""
    regions = jump_regions(recording.positions, recording.curve)
    return PowerQuestion(recording.draw(seed, size), recording.curve, regions)


def settings(strides: Sequence[int], samples: Sequence[int]) -> list[Setting]:
    """Cross strides with samples, in the order given."""
    return [Setting(stride, size) for stride in strides for size in samples]


@dataclass(frozen=True)
class Measurement:
    """Scores of one question, averaged over replicates, and how each fit came to its parameters."""

    scores: Scores
    selections: tuple[str, ...]


def measure(
    question: PowerQuestion,
    estimator: Estimator,
    setting: Setting,
    replicates: int,
    forks: ForkScores | None = None,
) -> Measurement:
    """Fit disjoint blocks of draws, score each by the draws outside it, and average.

    Positions are scored whether or not the stride observes them. `seconds` is the processor
    time of a fit and of its curve at all positions. Forks and intervals are counted into `forks`
    where it is given.
    """
    draws, size = question.draws, setting.samples
    everything = draws.counts()
    found: list[dict[str, float]] = []
    selections = []
    for first in range(0, replicates * size, size):
        sample = draws.sample(first, size, setting.stride)
        started = time.process_time()
        fit = estimator.fit(sample)
        estimate = fit.mean(draws.positions)
        seconds = time.process_time() - started
        others = everything - draws.counts(first, size)
        scores = score(estimate, others, question.regions)
        if forks is not None:
            forks.add(
                fit,
                sample.positions,
                positions=draws.positions,
                reference=question.curve,
                others=others,
                seed=first,
            )
        found.append({**scores, SECONDS: seconds})
        selections.append(str(fit.chosen.get(SELECTION, GIVEN)))
    return Measurement(average(found), tuple(selections))

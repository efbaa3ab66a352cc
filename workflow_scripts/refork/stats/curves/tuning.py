"""Choice of hyper-parameters, and of estimators, by cross-validation over draws.

Each fold of the draws is held out once; a candidate is fitted to the other folds, and its score is
the log-likelihood of the held-out draws, added over folds. The first of the best candidates wins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.estimator import Chosen, Estimator
from refork.stats.curves.sample import CurveSample

FOLDS = 5


@dataclass(frozen=True)
class Fold:
    """Draws that are held out, and the others."""

    sample: CurveSample
    held: NDArray[np.bool_]

    @cached_property
    def training(self) -> CurveSample:
        """Sample of the draws that are not held out."""
        return self.sample.kept(~self.held)

    @cached_property
    def held_out(self) -> NDArray[np.float64]:
        """Weighted held-out counts [positions, categories]."""
        return self.sample.kept(self.held, rescaled=False).counts


class Tunable(Protocol):
    """What can score all its candidates on a fold at once."""

    @property
    def candidates(self) -> Sequence[Chosen]:
        """Hyper-parameters of each candidate."""

    def scores(self, fold: Fold) -> NDArray[np.float64]:
        """Held-out log-likelihood of each candidate [candidates], in nats."""


@dataclass(frozen=True)
class Tuning:
    """Scores of all candidates.

    Attributes
    ----------
    candidates
        Hyper-parameters of each.
    scores
        Held-out log-likelihood [candidates, folds], in nats; no folds where draws were too few.
    selection
        In words how the choice was made.
    """

    candidates: Sequence[Chosen]
    scores: NDArray[np.float64]
    selection: str

    @property
    def best(self) -> int | None:
        """First of the best candidates; None without scores."""
        return int(np.argmax(self.scores.sum(axis=1))) if self.scores.shape[1] else None


@dataclass(frozen=True)
class Contest:
    """Estimators as candidates, for a choice among them."""

    estimators: Sequence[Estimator]

    @property
    def candidates(self) -> list[Chosen]:
        """Names of the estimators."""
        return [{"estimator": estimator.name} for estimator in self.estimators]

    def scores(self, fold: Fold) -> NDArray[np.float64]:
        """Fit each to the training draws; those that choose do so again, among these alone."""
        return np.array([held_out_score(estimator, fold) for estimator in self.estimators])


def tune(tunable: Tunable, sample: CurveSample, folds: int = FOLDS) -> Tuning:
    """Score all candidates by cross-validation.

    Folds are contiguous in the order of draws and spread over branches. With fewer draws than folds
    at every position there are as many folds as draws; with one draw there is nothing to hold out.
    """
    candidates = tunable.candidates
    most = int(sample.draws.max())
    used = min(folds, most)
    if used < 2:
        empty = np.empty((len(candidates), 0))
        return Tuning(candidates, empty, "fixed: one draw a position cannot be cross-validated")
    scores = [tunable.scores(fold) for fold in split(sample, used)]
    selection = f"{used}-fold cross-validation"
    if used < folds:
        selection += f", not {folds}-fold: no position has more than {most} draws"
    return Tuning(candidates, np.stack(scores, axis=1), selection)


def split(sample: CurveSample, folds: int) -> Iterator[Fold]:
    """Hold out one fold after the other."""
    fold_of_draw = sample.folds(folds)
    for fold in range(folds):
        yield Fold(sample, fold_of_draw == fold)


def held_out_score(estimator: Estimator, fold: Fold) -> float:
    """Log-likelihood of the held-out draws, in nats; −∞ where the curve holds one impossible."""
    mean = estimator.fit(fold.training).mean(fold.sample.positions)
    drawn = fold.held_out > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(fold.held_out[drawn] * np.log(mean[drawn])))

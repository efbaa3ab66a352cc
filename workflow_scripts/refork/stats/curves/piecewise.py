"""Kernel smoothing within segments: what the estimators `kernel`, `segment` and `full` share.

A choice is a penalty and a bandwidth. The penalty cuts the rows into segments by PELT; infinite, it
leaves one. The bandwidth is that of a Gaussian kernel which sees its own segment only; infinite, it
makes all rows of a segment alike. The smoothed counts and 1/K a category are the parameters of a
Dirichlet distribution, whose mean is the estimate. Positions without draws are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refork.errors import ReforkError
from refork.stats.curves import piecewise_kernels as kernels
from refork.stats.curves.estimator import GIVEN, SELECTION, Chosen
from refork.stats.curves.pelt.costs import COSTS
from refork.stats.curves.pelt.detectors import DETECTORS, MIN_SIZE, change_points
from refork.stats.curves.piecewise_kernels import Rows
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.skipped import Skipped
from refork.stats.curves.tuning import FOLDS, Fold, Tuning, tune

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

REACH = 8.0
"""Bandwidths that the kernel reaches: beyond, it is below e⁻³²."""


@dataclass(frozen=True)
class PiecewiseFit:
    """Curves that are smooth within segments; see the module.

    Attributes
    ----------
    chosen
        Hyper-parameters.
    rows
        What was smoothed.
    begins
        Rows at which a new segment begins, without row 0.
    bandwidth
        Of the kernel, in tokens.
    segmented
        Whether segments were looked for.
    skipped
        Positions without draws whose curve is that of others.
    tuning
        Scores of all choices; None where none was to be made.
    """

    chosen: Chosen
    rows: Rows
    begins: Integers
    bandwidth: float
    segmented: bool
    skipped: Skipped
    tuning: Tuning | None = None

    @property
    def change_points(self) -> Integers | None:
        """Positions at which a new segment begins; None where no segments were looked for."""
        return self.rows.positions[self.begins] if self.segmented else None

    def mean(self, positions: ArrayLike) -> Floats:
        """Estimate o_t [positions, categories]."""
        alpha = self._alpha(positions)
        mean: Floats = alpha / alpha.sum(axis=1, keepdims=True)
        return mean

    def sd(self, positions: ArrayLike) -> Floats:
        """Give the standard deviation of the Dirichlet distribution [positions, categories].

        It takes the smoothed counts for draws of one distribution, so it knows of no bias.
        """
        alpha = self._alpha(positions)
        total = alpha.sum(axis=1, keepdims=True)
        mean = alpha / total
        sd: Floats = np.sqrt(mean * (1 - mean) / (total + 1))
        return sd

    def _alpha(self, positions: ArrayLike) -> Floats:
        """Smooth the counts; a segment ends midway between the rows on both sides of its end."""
        at = self.skipped.stand_ins(positions)
        own, categories = self.rows.positions, self.rows.counts.shape[1]
        alpha = np.full((len(at), categories), 1 / categories)
        if len(at):
            middle = (own[self.begins - 1] + own[self.begins]) / 2
            segment = np.searchsorted(middle, at, side="right")
            edges = np.r_[0, self.begins, len(own)]
            segments = np.column_stack([edges[segment], edges[segment + 1]])
            span = max(at.max(), own[-1]) - min(at.min(), own[0])
            kernels.smooth(self.rows, at, segments, _table(self.bandwidth, span), alpha)
        return alpha


@dataclass(frozen=True)
class Piecewise:
    """Choices of penalty and bandwidth, in this order the first best wins.

    Attributes
    ----------
    penalties
        In nats; infinite: one segment.
    bandwidths
        In tokens; infinite: a segment is constant.
    fallback
        Penalty and bandwidth where there are too few draws to choose by.
    named
        Which of `cost`, `penalty` and `bandwidth` are hyper-parameters to report.
    cost, detector, min_size
        See `pelt.detectors`.
    folds
        Of the cross-validation.
    """

    penalties: Sequence[float]
    bandwidths: Sequence[float]
    fallback: tuple[float, float]
    named: Sequence[str]
    cost: str = "multinomial"
    detector: str = "compiled"
    min_size: int = MIN_SIZE
    folds: int = FOLDS

    def __post_init__(self) -> None:
        """Refuse hyper-parameters that mean nothing."""
        for name, values in (("penalty", self.penalties), ("bandwidth", self.bandwidths)):
            for value in values:
                if not value > 0:
                    raise ReforkError(f"{name} is {value}; it must be above 0")
        if self.folds < 2:
            raise ReforkError(f"folds is {self.folds}; a cross-validation needs two at least")
        if self.cost not in COSTS:
            raise ReforkError(f"cost is {self.cost!r}; allowed: {', '.join(COSTS)}")
        if self.detector not in DETECTORS:
            raise ReforkError(f"detector is {self.detector!r}; allowed: {', '.join(DETECTORS)}")

    def fit(self, sample: CurveSample) -> PiecewiseFit:
        """Choose by held-out log-likelihood where there is a choice, and smooth by the choice."""
        if len(self.choices) == 1:
            return self._fit(sample, self.choices[0], GIVEN)
        tuning = tune(self, sample, self.folds)
        best = self.fallback if tuning.best is None else self.choices[tuning.best]
        return self._fit(sample, best, tuning.selection, tuning)

    @cached_property
    def choices(self) -> list[tuple[float, float]]:
        """All pairs of penalty and bandwidth."""
        return list(product(self.penalties, self.bandwidths))

    @property
    def candidates(self) -> list[Chosen]:
        """Hyper-parameters of all choices."""
        return [self._named(choice) for choice in self.choices]

    def scores(self, fold: Fold) -> Floats:
        """Held-out log-likelihood of all choices [choices].

        The score of a segment depends on its ends alone, so it is computed once for all penalties
        that find it.
        """
        drawn = fold.sample.observed
        rows = Rows(fold.sample.positions[drawn], fold.training.counts[drawn])
        edges = [np.r_[0, begins, len(drawn)] for begins in self._cuts(rows, self.penalties)]
        segments = np.concatenate([np.column_stack([e[:-1], e[1:]]) for e in edges])
        distinct, which = np.unique(segments, axis=0, return_inverse=True)
        span = rows.positions[-1] - rows.positions[0]
        tables = tuple(_table(bandwidth, span) for bandwidth in self.bandwidths)
        prior = 1 / rows.counts.shape[1]
        scores = kernels.held_out_scores(rows, fold.held_out[drawn], distinct, tables, prior)
        by_penalty = np.split(which.ravel(), np.cumsum([len(e) - 1 for e in edges])[:-1])
        total = np.stack([scores[own].sum(axis=0) for own in by_penalty])
        return total.ravel()

    def _cuts(self, rows: Rows, penalties: Sequence[float]) -> list[Integers]:
        """Rows at which segments begin, for each penalty."""
        finite = [penalty for penalty in penalties if penalty < inf]
        cost = COSTS[self.cost](rows.positions)
        found = iter(
            change_points(cost, rows.counts, finite, self.detector, self.min_size) if finite else []
        )
        whole = np.empty(0, dtype=np.int64)
        return [next(found) if penalty < inf else whole for penalty in penalties]

    def _fit(
        self,
        sample: CurveSample,
        choice: tuple[float, float],
        selection: str,
        tuning: Tuning | None = None,
    ) -> PiecewiseFit:
        drawn = sample.observed
        rows = Rows(sample.positions[drawn], sample.counts[drawn])
        return PiecewiseFit(
            chosen={**self._named(choice), SELECTION: selection},
            rows=rows,
            begins=self._cuts(rows, choice[:1])[0],
            bandwidth=choice[1],
            segmented=choice[0] < inf,
            skipped=Skipped.of(sample),
            tuning=tuning,
        )

    def _named(self, choice: tuple[float, float]) -> dict[str, float | str]:
        values: dict[str, float | str] = {"cost": self.cost}
        values |= {"penalty": choice[0], "bandwidth": choice[1]}
        return {name: values[name] for name in self.named}


def _table(bandwidth: float, span: int) -> Floats:
    """Give the kernel by distance in tokens, up to where it ends or the span does."""
    last = int(min(REACH * bandwidth, span))
    table: Floats = np.exp(-0.5 * (np.arange(last + 1) / bandwidth) ** 2)
    return table

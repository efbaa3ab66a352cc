"""The estimator `segment`: curves that are constant between change points."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from refork.stats.curves.pelt.detectors import MIN_SIZE
from refork.stats.curves.piecewise import Piecewise, PiecewiseFit
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.tuning import FOLDS

PENALTIES = tuple(2.0**power for power in range(10))
"""Nats, from 1 to 512."""
FALLBACK = 64.0


@dataclass(frozen=True)
class Segment:
    """Counts pooled by segment, and 1/K a category; a penalty not given is cross-validated."""

    name: ClassVar[str] = "segment"
    penalty: float | None = None
    cost: str = "multinomial"
    detector: str = "compiled"
    min_size: int = MIN_SIZE
    folds: int = FOLDS

    @property
    def choices(self) -> Piecewise:
        """The penalties, without a kernel."""
        penalties = PENALTIES if self.penalty is None else (self.penalty,)
        return Piecewise(
            penalties,
            (inf,),
            (FALLBACK, inf),
            named=("cost", "penalty"),
            cost=self.cost,
            detector=self.detector,
            min_size=self.min_size,
            folds=self.folds,
        )

    def fit(self, sample: CurveSample) -> PiecewiseFit:
        """Segment, after a choice where there is one to make."""
        return self.choices.fit(sample)


ESTIMATOR = Segment

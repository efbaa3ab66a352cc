"""The estimator `kernel`: counts smoothed by a Gaussian kernel, and 1/K a category."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from refork.stats.curves.piecewise import Piecewise, PiecewiseFit
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.tuning import FOLDS

BANDWIDTHS = tuple(2.0**power for power in range(1, 8))
"""Tokens, from 2 to 128."""
FALLBACK = 32.0


@dataclass(frozen=True)
class Kernel:
    """One bandwidth in tokens for the whole curve, by cross-validation where none is given."""

    name: ClassVar[str] = "kernel"
    bandwidth: float | None = None
    folds: int = FOLDS

    @property
    def choices(self) -> Piecewise:
        """One segment, and the bandwidths."""
        bandwidths = BANDWIDTHS if self.bandwidth is None else (self.bandwidth,)
        fallback = (inf, FALLBACK)
        return Piecewise((inf,), bandwidths, fallback, named=("bandwidth",), folds=self.folds)

    def fit(self, sample: CurveSample) -> PiecewiseFit:
        """Smooth, after a choice where there is one to make."""
        return self.choices.fit(sample)


ESTIMATOR = Kernel

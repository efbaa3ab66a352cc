"""The estimator `raw`: observed shares, linear between positions with draws."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refork.stats.curves.estimator import GIVEN, SELECTION, Chosen
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.skipped import Skipped


@dataclass(frozen=True)
class RawFit:
    """Shares [positions with draws, categories], constant beyond the first and the last."""

    positions: NDArray[np.int64]
    shares: NDArray[np.float64]
    skipped: Skipped
    chosen: Chosen = field(default_factory=lambda: {SELECTION: GIVEN})
    change_points: None = None

    def mean(self, positions: ArrayLike) -> NDArray[np.float64]:
        """Estimate o_t [positions, categories]."""
        at = self.skipped.stand_ins(positions)
        curves = [np.interp(at, self.positions, share) for share in self.shares.T]
        return np.stack(curves, axis=1)

    def sd(self, positions: ArrayLike) -> NDArray[np.float64] | None:
        """Give no error bars: a category that was not drawn would get one of no width."""
        return None


@dataclass(frozen=True)
class Raw:
    """Observed shares."""

    name: ClassVar[str] = "raw"

    def fit(self, sample: CurveSample) -> RawFit:
        """Take the shares of the positions with draws."""
        counts = sample.counts[sample.observed]
        shares = counts / counts.sum(axis=1, keepdims=True)
        return RawFit(sample.positions[sample.observed], shares, Skipped.of(sample))


ESTIMATOR = Raw

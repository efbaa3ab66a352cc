"""The estimator `full`: a Gaussian kernel that is cut off at change points.

Source: Forking Fast, arXiv 2608.19611. The fixed variant is `Full(penalty=64, bandwidth=32)`.
"""

from dataclasses import dataclass
from typing import ClassVar

from refork.stats.curves.kernel import BANDWIDTHS
from refork.stats.curves.pelt.detectors import MIN_SIZE
from refork.stats.curves.piecewise import Piecewise, PiecewiseFit
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.tuning import FOLDS

PENALTIES = tuple(2.0**power for power in range(12))
"""Nats, from 1 to 2048."""
FALLBACK = (64.0, 32.0)
"""Penalty and bandwidth where draws are too few for a choice: those of the fixed variant."""


@dataclass(frozen=True)
class Full:
    """Penalty and bandwidth by cross-validation, each where it is not given.

    `cost` is `multinomial`, `l2` or `logit_linear`; `detector` is `compiled` or `ruptures`.
    """

    name: ClassVar[str] = "full"
    penalty: float | None = None
    bandwidth: float | None = None
    cost: str = "multinomial"
    detector: str = "compiled"
    min_size: int = MIN_SIZE
    folds: int = FOLDS

    @property
    def choices(self) -> Piecewise:
        """Penalties and bandwidths."""
        penalties = PENALTIES if self.penalty is None else (self.penalty,)
        bandwidths = BANDWIDTHS if self.bandwidth is None else (self.bandwidth,)
        return Piecewise(
            penalties,
            bandwidths,
            fallback=(
                FALLBACK[0] if self.penalty is None else self.penalty,
                FALLBACK[1] if self.bandwidth is None else self.bandwidth,
            ),
            named=("cost", "penalty", "bandwidth"),
            cost=self.cost,
            detector=self.detector,
            min_size=self.min_size,
            folds=self.folds,
        )

    def fit(self, sample: CurveSample) -> PiecewiseFit:
        """Find change points and smooth, after a choice where there is one to make."""
        return self.choices.fit(sample)


ESTIMATOR = Full

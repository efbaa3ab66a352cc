"""ForkHMM, the default estimator of outcome curves; see `estimator`."""

from refork.stats.curves.forkhmm.estimator import ForkHMM
from refork.stats.curves.forkhmm.posterior import ForkFit
from refork.stats.curves.forkhmm.scales import SCALES, USUAL, Scale

ESTIMATOR = ForkHMM

__all__ = ["ESTIMATOR", "SCALES", "USUAL", "ForkFit", "ForkHMM", "Scale"]

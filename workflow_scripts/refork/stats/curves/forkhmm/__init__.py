"""ForkHMM, the default estimator of outcome curves; see `estimator`."""

from refork.stats.curves.forkhmm.estimator import ForkHMM, Scale
from refork.stats.curves.forkhmm.posterior import ForkFit

ESTIMATOR = ForkHMM

__all__ = ["ESTIMATOR", "ForkFit", "ForkHMM", "Scale"]

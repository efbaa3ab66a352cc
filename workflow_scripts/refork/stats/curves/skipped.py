"""Positions that were not sampled because their curve is known to be that of a later one.

Where the base token is the only branch of a position, what follows is certain: o_t = o_{t+1}.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refork.stats.curves.sample import CurveSample

Integers = NDArray[np.int64]

CERTAIN = 1 - 1e-9


@dataclass(frozen=True)
class Skipped:
    """Skipped positions, ascending, and for each the sampled position whose curve it has."""

    positions: Integers
    sampled: Integers

    @classmethod
    def of(cls, sample: CurveSample) -> "Skipped":
        """Find grid positions without draws from which the path to the next draws is certain."""
        drawn = sample.positions[sample.observed]
        empty = sample.positions[sample.draws == 0]
        following = np.searchsorted(drawn, empty)
        empty, following = empty[following < len(drawn)], following[following < len(drawn)]
        uncertain = np.r_[0, np.cumsum(~(sample.base_probability >= CERTAIN))]
        certain = uncertain[drawn[following]] == uncertain[empty]
        return cls(empty[certain], drawn[following[certain]])

    def stand_ins(self, positions: ArrayLike) -> Integers:
        """Give the positions to ask instead: sampled ones for skipped ones, the others as is."""
        at = np.array(positions, dtype=np.int64)
        place = np.searchsorted(self.positions, at)
        known = np.flatnonzero(place < len(self.positions))
        known = known[self.positions[place[known]] == at[known]]
        at[known] = self.sampled[place[known]]
        return at

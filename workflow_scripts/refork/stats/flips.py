"""Flips: pivots whose credit has another sign than in the reference pass (arXiv 2606.15621)."""

from dataclasses import dataclass

import numpy as np

from refork.stats.credit import Integers, Mask
from refork.stats.missing import Missing, Quantity, share


@dataclass(frozen=True)
class Flips:
    """How many of `n` pivots flipped: one of the two signs is 0, or they are opposite."""

    n: int
    zero_crossings: int
    polarity_reversals: int

    @property
    def flips(self) -> int:
        """Flips of either kind."""
        return self.zero_crossings + self.polarity_reversals

    @property
    def flip_rate(self) -> Quantity:
        """Share of the pivots that flipped."""
        return share(self.flips, self.n, "eligible pivots")

    @property
    def polarity_rate(self) -> Quantity:
        """Share of the pivots whose polarity reversed."""
        return share(self.polarity_reversals, self.n, "eligible pivots")


def count_flips(reference: Integers, other: Integers, among: Mask) -> Flips:
    """Count the flips between two passes' signs over the pivots in `among`; shapes (pivots,)."""
    reversed_polarity = reference * other < 0
    crossed_zero = (reference != other) & ~reversed_polarity
    return Flips(
        n=int(np.count_nonzero(among)),
        zero_crossings=int(np.count_nonzero(crossed_zero & among)),
        polarity_reversals=int(np.count_nonzero(reversed_polarity & among)),
    )


def pooled_excess(treatment: Flips, floor: Flips) -> Quantity:
    """Flip rate of the treatment less that of the floor, over the same pivots; in [−1, 1]."""
    if treatment.n != floor.n:
        raise ValueError(f"treatment has {treatment.n} pivots, its floor has {floor.n}")
    if not treatment.n:
        return Missing("no eligible pivots")
    return (treatment.flips - floor.flips) / treatment.n

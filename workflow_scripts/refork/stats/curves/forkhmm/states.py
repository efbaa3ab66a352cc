"""States of a stick: points of [0, 1] at equal steps of the angle arcsin √x.

On the angle a binomial rate has the same standard error everywhere, so a grid of equal steps is as
fine near 0 and 1 as the data need it there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class States:
    """Cells of equal angle that fill [0, 1], and the point in the middle of each."""

    points: Floats  # [states] ascending, within (0, 1)
    edges: Floats  # [states + 1] from 0 to 1

    @classmethod
    def of(cls, count: int) -> "States":
        """Cut [0, 1] into `count` cells, 2 at least."""
        if count < 2:
            raise ValueError(f"a stick has 2 states at least, not {count}")
        return cls(
            points=_rate((np.arange(count) + 0.5) / count),
            edges=_rate(np.linspace(0, 1, count + 1)),
        )

    def __len__(self) -> int:
        """Give the number of states."""
        return len(self.points)

    def beta(self, a: float | Floats, b: float | Floats, floor: float) -> Floats:
        """Give the mass of Beta(a, b) in each cell, at least about `floor`; a row for each a and b.

        The floor keeps every state within reach, whatever the data say.
        """
        below = betainc(np.asarray(a)[..., None], np.asarray(b)[..., None], self.edges)
        mass = np.diff(below, axis=-1) + floor
        return np.asarray(mass / mass.sum(axis=-1, keepdims=True), dtype=np.float64)

    def at(self, place: Floats) -> Floats:
        """Points at places from 0 to the number of states: the middle of cell 3 is at 3.5."""
        return _rate(place / len(self))


def _rate(angle: Floats) -> Floats:
    """Turn an angle, as a share of the quarter circle, into a rate."""
    return np.sin(angle * (np.pi / 2)) ** 2

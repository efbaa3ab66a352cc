"""Where the reference curve jumps, and which positions are near a jump.

Source: arXiv 2608.19611, whose errors are told apart by fork and flat regions.
"""

import numpy as np
from numpy.typing import NDArray

EPSILONS = (0.10, 0.15, 0.20)
"""Distances of neighbouring positions from which a curve is said to jump."""
REACH = 10
"""Tokens on either side of a jump that are its region."""


def total_variation(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Total variation distance ½ Σ_k |·| of curves of shape (P, K) at every position, (P,)."""
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def jumps(
    positions: NDArray[np.int64], curve: NDArray[np.float64], epsilon: float
) -> NDArray[np.int64]:
    """Find the positions at which a curve of shape (P, K) is further than ε from the one before."""
    return positions[1:][total_variation(curve[1:], curve[:-1]) > epsilon]


def near(
    positions: NDArray[np.int64], tokens: NDArray[np.int64], reach: int = REACH
) -> NDArray[np.bool_]:
    """Tell which positions are within `reach` tokens of one of `tokens`, shape (P,)."""
    first = np.searchsorted(tokens, positions - reach)
    behind = np.searchsorted(tokens, positions + reach, side="right")
    return np.asarray(behind > first)


def jump_regions(
    positions: NDArray[np.int64], curve: NDArray[np.float64]
) -> dict[float, NDArray[np.bool_]]:
    """Tell which positions are near a jump of the reference curve, for each of `EPSILONS`."""
    return {epsilon: near(positions, jumps(positions, curve, epsilon)) for epsilon in EPSILONS}

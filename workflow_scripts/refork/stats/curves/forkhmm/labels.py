"""Labels: what a draw's branch tells beyond its outcome.

Draws of the base branch at t observe s_{t+1}, where the curve stands once the base token is taken;
the others observe r_t, and o_t = p_t s_{t+1} + (1 − p_t) r_t. Given s, r is spiky: most often the
alternatives lead where the base token leads, sometimes somewhere else altogether.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.states import Floats, States

TABLES = 64
"""Tables of p_t: each stands for a 64th of [0, 1]."""
SURE = 1 - 1e-6
"""Base probability from which a position has no split."""
_LEAST_SCALE = 1e-9


@dataclass(frozen=True)
class Spikes:
    """r given s: a mixture of heat kernels on the angle, and for the rest a fresh start."""

    parts: tuple[tuple[float, float], ...] = ((0.887, 1.5e-4), (0.10, 0.028), (0.012, 0.12))
    fresh: tuple[float, float] = (0.6, 0.4)  # Beta parameters

    def matrix(self, grid: States) -> Floats:
        """P(r | s) on a grid, [s, r]; `parts` are pairs of share and variance of the angle."""
        heat = _heat(len(grid))
        total = sum(share for share, _ in self.parts)
        mixed = (1 - total) * grid.beta(*self.fresh, 1e-6) + sum(
            share * expm(heat * variance) for share, variance in self.parts
        )
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True), dtype=np.float64)


def _heat(states: int) -> Floats:
    """Give the rates of a random walk between neighbouring angles: variance 1 a unit, walls."""
    rate = 0.5 / (np.pi / 2 / states) ** 2
    walk = np.diag(np.full(states - 1, rate), 1)
    walk += walk.T
    return walk - np.diag(walk.sum(axis=1))


@lru_cache(maxsize=8)
def split_tables(states: int, spikes: Spikes) -> kernels.Split:
    """Compute a table a level of p: between which states o = p s + (1 − p) r lies, how often.

    Returns
    -------
    `spikes` [s, r]; `scale` [places, o], the mass that falls on each state; `cell` and `share`
    [places, s, r]: o lies between the states `cell` and `cell` + 1, a `share` of the way.
    """
    grid = States.of(states)
    points, matrix = grid.points, spikes.matrix(grid)
    probability = (np.arange(TABLES) + 0.5)[:, None, None] / TABLES
    mixed = probability * points[:, None] + (1 - probability) * points
    cell = np.clip(np.searchsorted(points, mixed) - 1, 0, states - 2)
    share = np.clip((mixed - points[cell]) / np.diff(points)[cell], 0.0, 1.0)
    scale = np.full((TABLES, states), _LEAST_SCALE)
    for table in range(TABLES):
        np.add.at(scale[table], cell[table], matrix * (1 - share[table]))
        np.add.at(scale[table], cell[table] + 1, matrix * share[table])
    return kernels.Split(matrix, scale, cell.astype(np.int16), share)


def tables_of(base_probability: Floats, drawn: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give the table of each position's p; −1 where there is no split: unknown, sure or undrawn."""
    known = np.nan_to_num(base_probability, nan=1.0)
    table = np.clip((known * TABLES).astype(np.int64), 0, TABLES - 1)
    return np.where(drawn & (known < SURE), table, -1)

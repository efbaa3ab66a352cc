"""How a stick moves from position to position: matrices for steps of much or little information.

An outcome curve is the expectation of one final answer, so a step moves it without changing its
mean. A step of information I is, in turn:

- a Wright-Fisher diffusion of variance rate · I on the angle scale: slow drift;
- a jump x → Beta(c x, c (1 − x)), c = 1/(4v) − 1, with probability 1 − exp(−rate · I), for each
  kind of jump: mean x, variance 4 v x (1 − x): forks;
- a fresh start with probability 1 − exp(−rate · I), the one part that does not keep the mean: what
  the rest of the model does not foresee.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from refork.stats.curves.forkhmm.states import Floats, States

LEVELS = 28
LEAST, MOST = 1e-4, 64.0
"""Information of the first and the last level; levels lie at equal ratios between them."""
_STILL = 0.7 * LEAST
"""Steps with less information than this do not move at all: level 0, the identity."""
_FLOOR = 1e-12


@dataclass(frozen=True)
class Jump:
    """A kind of jump: how often a unit of information brings it, and how far it goes."""

    rate: float
    spread: float  # v of the module's docstring, in (0, 1/4)


@dataclass(frozen=True)
class Motion:
    """Rates of one unit of information; the defaults were set on recorded curves of two models."""

    diffusion: float = 4.5e-4
    jumps: tuple[Jump, ...] = (Jump(0.225, 0.012), Jump(0.048, 0.12))
    reset: float = 0.00225
    fresh: tuple[float, float] = (0.6, 0.4)  # Beta parameters of a fresh start


@dataclass(frozen=True)
class Transitions:
    """Matrices of every level; level 0 is the identity."""

    matrices: Floats  # [levels + 1, states, states]; row: from
    transposed: Floats  # the same, row: to

    @staticmethod
    def level(information: Floats) -> NDArray[np.int64]:
        """Give the level nearest to each information, by ratio."""
        step = np.log(MOST / LEAST) / (LEVELS - 1)
        nearest = np.rint(1 + np.log(np.maximum(information, LEAST) / LEAST) / step)
        level = np.where(information < _STILL, 0, np.minimum(nearest, LEVELS))
        return np.asarray(level, dtype=np.int64)


@lru_cache(maxsize=32)
def transitions(states: int, motion: Motion) -> Transitions:
    """Compute the matrices of a motion on a grid of so many states; kept for the next call."""
    grid = States.of(states)
    jumps = [(jump.rate, jump_kernel(grid, jump.spread)) for jump in motion.jumps]
    jumps.append((motion.reset, grid.beta(*motion.fresh, 1e-6)[None, :]))
    matrices = np.empty((LEVELS + 1, states, states))
    matrices[0] = np.eye(states)
    diffuse = Diffusion.on(grid)
    for level, information in enumerate(np.geomspace(LEAST, MOST, LEVELS), start=1):
        matrix = diffuse.over(motion.diffusion * information)
        for rate, kernel in jumps:
            probability = -np.expm1(-rate * information)
            matrix = (1 - probability) * matrix + probability * kernel
        matrices[level] = matrix / matrix.sum(axis=1, keepdims=True)
    # One copy serves all fits of the process.
    transposed = np.ascontiguousarray(matrices.transpose(0, 2, 1))
    matrices.flags.writeable = transposed.flags.writeable = False
    return Transitions(matrices, transposed)


def jump_kernel(grid: States, spread: float) -> Floats:
    """Give the matrix [from, to] of x → Beta(c x, c (1 − x)), c = 1/(4 · spread) − 1."""
    if not 0 < spread < 0.25:
        raise ValueError(f"a jump's spread lies between 0 and 1/4, not at {spread}")
    concentration = 1 / (4 * spread) - 1
    return grid.beta(concentration * grid.points, concentration * (1 - grid.points), _FLOOR)


def generator(grid: States) -> Floats:
    """Give the rates [from, to] of a Wright-Fisher diffusion: variance 2 x (1 − x) a unit of time.

    Between neighbours only. Rates 2 x (1 − x) / (gap · both gaps) keep the mean and give the
    variance at every inner point; the outermost points can only step inwards.
    """
    gap = np.diff(grid.points)
    variance = 4 * grid.points * (1 - grid.points)
    both = gap[:-1] + gap[1:]
    up = np.concatenate([variance[:1] / gap[0] ** 2 / 2, variance[1:-1] / (gap[1:] * both)])
    down = np.concatenate([variance[1:-1] / (gap[:-1] * both), variance[-1:] / gap[-1] ** 2 / 2])
    rates = (np.diag(up, 1) + np.diag(down, -1)) / 2
    return rates - np.diag(rates.sum(axis=1))


@dataclass(frozen=True)
class Diffusion:
    """The diffusion over any time, by the eigenvectors of its generator made symmetric.

    Rates between neighbours are reversible: with the right weights w, √wᵢ Qᵢⱼ /√wⱼ is symmetric.
    """

    values: Floats  # [states]
    left: Floats  # [states, states]
    right: Floats

    @classmethod
    def on(cls, grid: States) -> "Diffusion":
        """Decompose the generator on a grid."""
        rates = generator(grid)
        up, down = np.diag(rates, 1), np.diag(rates, -1)
        root = np.exp(np.concatenate([[0.0], np.cumsum(np.log(up / down) / 2)]))
        values, vectors = eigh_tridiagonal(np.diag(rates), np.sqrt(up * down))
        return cls(values, vectors / root[:, None], vectors.T * root)

    def over(self, time: float) -> Floats:
        """Give exp(time · generator); rounding below 0 is cut off."""
        return np.maximum((self.left * np.exp(time * self.values)) @ self.right, 0.0)

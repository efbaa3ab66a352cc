"""The posterior of one stick: smoothed states, evidence, and joint draws."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.states import Floats


class Posterior(Protocol):
    """A stick given all its draws."""

    @property
    def now(self) -> Floats:
        """Posterior of o_t, [positions, states]."""

    @property
    def after(self) -> Floats:
        """Posterior of s_{t+1}, where the curve goes on from, [positions, states]."""

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw `count` whole chains: states of o_t, [count, positions]."""


class PlainChain:
    """A stick whose draws all observe o_t; s_{t+1} is o_t.

    It is run forwards at once, backwards when its posterior is asked for. `evidence` is the
    log-probability of the draws, up to a constant of the draws alone.
    """

    def __init__(self, steps: kernels.Steps, start: Floats, likelihood: Floats) -> None:
        """Take p(first state) `start` [states] and the draws' likelihood [positions, states]."""
        self._likelihood = likelihood
        self._steps = steps
        self._filtered = np.empty_like(self._likelihood)
        self._support = np.empty((len(self._likelihood), 2), dtype=np.int64)
        self.evidence: float = kernels.filter_chain(
            likelihood, steps, start, self._filtered, self._support
        )

    @cached_property
    def now(self) -> Floats:
        """See `Posterior`."""
        smoothed = np.empty_like(self._likelihood)
        kernels.smooth_chain(self._likelihood, self._steps, self._filtered, self._support, smoothed)
        return smoothed

    @property
    def after(self) -> Floats:
        """See `Posterior`."""
        return self.now

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """See `Posterior`: backward sampling from the filtered states."""
        drawn = np.empty((len(self._filtered), count), dtype=np.int64)
        uniforms = random.random(drawn.shape)
        kernels.draw_chain(self._steps, self._filtered, self._support, uniforms, drawn)
        return drawn.T


@dataclass(frozen=True)
class Splits:
    """Which table the split of every position has, as of `labels.tables_of`, and all tables."""

    table: NDArray[np.int64]  # [positions], -1 without a split
    tables: kernels.Split


class LabelledChain:
    """A stick whose draws tell their branch: at a split they observe s_{t+1} or r_t."""

    def __init__(
        self,
        steps: kernels.Steps,
        start: Floats,
        likelihoods: tuple[Floats, Floats],
        splits: Splits,
    ) -> None:
        """Run forwards and backwards.

        `likelihoods` [positions, states] are of the draws of the base branch, and of the others.
        """
        base, other = likelihoods
        self._steps = steps
        self._seen = kernels.LabelledDraws(base, other, splits.table, splits.tables)
        self._filtered = kernels.Filtered(
            before=np.empty_like(base),
            after=np.empty_like(base),
            support=np.empty((len(base), 2, 2), dtype=np.int64),
        )
        kernels.filter_labelled(self._seen, steps, start, self._filtered)
        self.now, self.after = np.empty_like(base), np.empty_like(base)
        kernels.smooth_labelled(self._seen, steps, self._filtered, self.now, self.after)

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """See `Posterior`: backward sampling, s_{t+1} first, then o_t given it."""
        drawn = np.empty((len(self.now), count), dtype=np.int64)
        uniforms = random.random((len(self.now), 2, count))
        kernels.draw_labelled(self._seen, self._steps, self._filtered, uniforms, drawn)
        return drawn.T

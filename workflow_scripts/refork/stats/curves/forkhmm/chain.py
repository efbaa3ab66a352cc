"""The posterior of one stick: smoothed states, evidence, and joint draws."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.states import Floats, States
from refork.stats.curves.forkhmm.sticks import emissions


@dataclass(frozen=True)
class Seen:
    """What a stick saw at every position; shape (positions,), not always whole numbers."""

    hits: Floats
    trials: Floats


class Posterior(Protocol):
    """A stick given all its draws."""

    evidence: float  # log-probability of the draws, up to a constant of the draws alone
    now: Floats  # [positions, states] of o_t
    after: Floats  # [positions, states] of s_{t+1}, where the curve goes on from

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw `count` whole chains: states of o_t, [count, positions]."""


class PlainChain:
    """A stick whose draws all observe o_t; s_{t+1} is o_t."""

    def __init__(self, grid: States, steps: kernels.Steps, start: Floats, seen: Seen) -> None:
        """Run forwards and backwards from p(first state) `start` [states]."""
        likelihood, scaled_away = emissions(seen.hits, seen.trials, grid)
        self._steps = steps
        self._filtered = np.empty_like(likelihood)
        self._support = np.empty((len(likelihood), 2), dtype=np.int64)
        filtered = self._filtered, self._support
        self.evidence = scaled_away + kernels.filter_chain(likelihood, steps, start, *filtered)
        self.now = self.after = np.empty_like(likelihood)
        kernels.smooth_chain(likelihood, steps, *filtered, self.now)

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """See `Posterior`: backward sampling from the filtered states."""
        drawn = np.empty((len(self.now), count), dtype=np.int64)
        uniforms = random.random(drawn.shape)
        kernels.draw_chain(self._steps, self._filtered, self._support, uniforms, drawn)
        return drawn.T


@dataclass(frozen=True)
class Splits:
    """Which positions have a split, as of `labels.places_of`, and the tables of all splits."""

    places: NDArray[np.int64]  # [positions]
    tables: kernels.Split


class LabelledChain:
    """A stick whose draws tell their branch: at a split they observe s_{t+1} or r_t."""

    def __init__(
        self,
        grid: States,
        steps: kernels.Steps,
        start: Floats,
        seen: tuple[Seen, Seen],
        splits: Splits,
    ) -> None:
        """Run forwards and backwards; `seen` by draws of the base branch, and by the others."""
        (base, base_scale), (other, other_scale) = (
            emissions(of.hits, of.trials, grid) for of in seen
        )
        self._steps = steps
        self._seen = kernels.Seen(base, other, splits.places, splits.tables)
        self._filtered = kernels.Filtered(
            before=np.empty_like(base),
            after=np.empty_like(base),
            support=np.empty((len(base), 2, 2), dtype=np.int64),
        )
        self.evidence = (
            base_scale
            + other_scale
            + kernels.filter_labelled(self._seen, steps, start, self._filtered)
        )
        self.now, self.after = np.empty_like(base), np.empty_like(base)
        kernels.smooth_labelled(self._seen, steps, self._filtered, self.now, self.after)

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """See `Posterior`: backward sampling, s_{t+1} first, then o_t given it."""
        drawn = np.empty((len(self.now), count), dtype=np.int64)
        uniforms = random.random((len(self.now), 2, count))
        kernels.draw_labelled(self._seen, self._steps, self._filtered, uniforms, drawn)
        return drawn.T

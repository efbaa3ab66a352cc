"""ForkHMM: outcome curves as hidden Markov chains of drift and jumps.

A question's multinomial is cut into independent sticks (`sticks`). Each is a chain over a grid of
states (`states`) that drifts and jumps by the information of its tokens (`information`,
`transitions`); forward-backward (`kernels`) gives the exact posterior. Nothing is tuned a question
but the weights of a few scales of the motion, by their evidence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from refork.errors import ReforkError, allowed_names
from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.chain import LabelledChain, PlainChain, Posterior, Seen, Splits
from refork.stats.curves.forkhmm.information import Information
from refork.stats.curves.forkhmm.labels import SURE, Spikes, places_of, split_tables
from refork.stats.curves.forkhmm.posterior import ForkFit, Regime
from refork.stats.curves.forkhmm.states import Floats, States
from refork.stats.curves.forkhmm.sticks import hits_and_trials, order_of
from refork.stats.curves.forkhmm.transitions import Motion, Transitions, transitions
from refork.stats.curves.sample import CurveSample

_S = TypeVar("_S")

STARTS = ((0.8, 0.4), (0.5, 0.5))
"""Beta parameters at the first position: of the first stick, and of the others."""
POINTS = ("mean", "median")


@dataclass(frozen=True)
class Scale:
    """How much faster than usual the curves of a question may drift, and jump."""

    drift: float = 1.0
    jumps: float = 1.0
    prior: float = 1.0  # probability before the draws are seen, up to a common factor

    def of(self, motion: Motion) -> Motion:
        """Give a motion at this scale."""
        return replace(
            motion,
            diffusion=motion.diffusion * self.drift,
            jumps=tuple(replace(jump, rate=jump.rate * self.jumps) for jump in motion.jumps),
            reset=motion.reset * self.jumps,
        )


@dataclass(frozen=True)
class ForkHMM:
    """The estimator; see the module.

    Parameters
    ----------
    labels
        Whether the branch of a draw is used, see `labels`.
    point
        What `mean` of a fit gives: posterior means or medians.
    states
        Number of states of a stick.
    """

    name = "forkhmm"
    labels: bool = False
    point: str = "mean"
    states: int = 64
    motion: Motion = field(default_factory=Motion)
    information: Information = field(default_factory=Information)
    spikes: Spikes = field(default_factory=Spikes)
    scales: tuple[Scale, ...] = (Scale(),)

    def __post_init__(self) -> None:
        """Refuse a point that does not exist."""
        if self.point not in POINTS:
            raise ReforkError(f"point: {self.point!r}; {allowed_names(self.point, POINTS)}")

    def fit(self, sample: CurveSample) -> ForkFit:
        """Compute the posterior of a question's curves."""
        grid = States.of(self.states)
        counts = _effective_counts(sample)
        order = order_of(counts)
        places = self._places(sample)
        time = self._time(sample, places)
        levels = Transitions.level(np.diff(time[sample.positions]))
        sticks = self._sticks(sample, order, places)
        regimes = []
        for scale in self.scales:
            moves = transitions(self.states, scale.of(self.motion))
            steps = kernels.Steps(levels, moves.matrices, moves.transposed)
            regimes.append(sticks(steps))
        weights = _weights(self.scales, regimes)
        return ForkFit(
            chosen={"labels": "on" if self.labels else "off", "point": self.point},
            positions=sample.positions,
            time=time,
            order=order,
            grid=grid,
            regimes=[
                Regime(float(weight), sticks)
                for weight, sticks in zip(weights, regimes, strict=True)
            ],
            point=self.point,
        )

    def _sticks(
        self, sample: CurveSample, order: NDArray[np.int64], places: NDArray[np.int64]
    ) -> Callable[[kernels.Steps], list[Posterior]]:
        """Prepare what the sticks saw; give what makes their posteriors for any steps."""
        grid = States.of(self.states)
        if not self.labels:
            plain = _seen(_effective_counts(sample), order)
            return lambda steps: [
                PlainChain(grid, steps, start, seen) for start, seen in _started(grid, plain)
            ]
        splits = Splits(places, split_tables(self.states, self.spikes))
        labelled = _seen_by_branch(sample, order)
        return lambda steps: [
            LabelledChain(grid, steps, start, seen, splits)
            for start, seen in _started(grid, labelled)
        ]

    def _places(self, sample: CurveSample) -> NDArray[np.int64]:
        """Give the table of every position's split; none where labels are not used."""
        drawn = (sample.draws > 0) & self.labels
        return places_of(sample.base_probability[sample.positions], drawn)

    def _time(self, sample: CurveSample, places: NDArray[np.int64]) -> Floats:
        skipped = (sample.draws == 0) & (sample.base_probability[sample.positions] >= SURE)
        return self.information.time(
            sample.base_probability,
            sample.dropped,
            split=sample.positions[places >= 0],
            still=sample.positions[skipped],
        )


def _started(grid: States, sticks: Sequence[_S]) -> Iterator[tuple[Floats, _S]]:
    """Pair the sticks with what is known of them at the first position."""
    for number, stick in enumerate(sticks):
        yield grid.beta(*STARTS[min(number, 1)], 1e-6), stick


def _seen(counts: Floats, order: NDArray[np.int64]) -> list[Seen]:
    hits, trials = hits_and_trials(counts, order)
    return [Seen(*of) for of in zip(hits, trials, strict=True)]


def _seen_by_branch(sample: CurveSample, order: NDArray[np.int64]) -> list[tuple[Seen, Seen]]:
    """Give what the sticks saw of the base branch, and of the others.

    Draws of one branch are alike, whatever they weigh in o_t: each base draw counts as one.
    """
    of_base = sample.branch == 0
    base, other = (
        _effective_counts(sample.chosen(kept)) if kept.any() else np.zeros_like(sample.counts)
        for kept in (of_base, ~of_base)
    )
    return list(zip(_seen(base, order), _seen(other, order), strict=True))


def _effective_counts(sample: CurveSample) -> Floats:
    """Counts that are worth as much as the weighted draws: (Σ weight)² / Σ weight² a position."""
    if np.all(sample.weight == 1):
        return sample.counts
    size = len(sample.positions)
    total = np.bincount(sample.place, sample.weight, minlength=size)
    square = np.bincount(sample.place, sample.weight**2, minlength=size)
    worth = np.divide(total, square, out=np.ones(size), where=square > 0)
    return sample.counts * worth[:, None]


def _weights(scales: Sequence[Scale], regimes: Sequence[Sequence[Posterior]]) -> Floats:
    """Probability of each scale given all draws."""
    evidence = np.array(
        [
            np.log(scale.prior) + sum(stick.evidence for stick in sticks)
            for scale, sticks in zip(scales, regimes, strict=True)
        ]
    )
    weight = np.exp(evidence - evidence.max())
    return np.asarray(weight / weight.sum(), dtype=np.float64)

"""ForkHMM: outcome curves as hidden Markov chains of drift and jumps.

A question's multinomial is cut into independent sticks (`sticks`). Each is a chain over a grid of
states (`states`) that drifts and jumps by the information of its tokens (`information`,
`transitions`); forward-backward (`kernels`) gives the exact posterior. Nothing is tuned a question
but the weights of a few scales of the motion, by their evidence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from refork.errors import ReforkError, allowed_names
from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.chain import LabelledChain, PlainChain, Posterior, Splits
from refork.stats.curves.forkhmm.information import Information
from refork.stats.curves.forkhmm.labels import SURE, Spikes, split_tables, tables_of
from refork.stats.curves.forkhmm.posterior import POINTS, ForkFit, Regime
from refork.stats.curves.forkhmm.scales import SCALES, Scale, probable
from refork.stats.curves.forkhmm.states import Floats, States
from refork.stats.curves.forkhmm.sticks import Seen, order_of, starts, sticks_of
from refork.stats.curves.forkhmm.transitions import Motion, Transitions, transitions
from refork.stats.curves.sample import CurveSample

Sticks: TypeAlias = Callable[[kernels.Steps], Sequence[Posterior]]
"""Makes the posteriors of all sticks of a question, given the steps between its positions."""


@dataclass(frozen=True)
class ForkHMM:
    """The estimator; see the module.

    Parameters
    ----------
    labels
        Whether the branch of a draw is used where its probability is known, see `labels`.
    point
        What `mean` of a fit gives: posterior `mean` (best for squared error and probabilities),
        `median` (best for total variation), or what lies in the `middle`, which loses a quarter of
        the difference in either.
    states
        Number of states of a stick.
    motion, information, spikes
        Rates, which were set once on recorded curves of two models.
    scales
        What may make the motion of a question faster or slower.
    least, most
        Scales less probable than `least` are left out, and all but the `most` probable.
    widen
        Factor of all error bars where labels are used: how much too narrow they were found on
        simulated branching, whose alternatives are less alike than those of the recorded curves.

    Raises
    ------
    ReforkError
        There is no such point.
    """

    name = "forkhmm"
    labels: bool = True
    point: str = "middle"
    states: int = 64
    motion: Motion = field(default_factory=Motion)
    information: Information = field(default_factory=Information)
    spikes: Spikes = field(default_factory=Spikes)
    scales: tuple[Scale, ...] = SCALES
    least: float = 0.1
    most: int = 2
    widen: float = 1.15

    def __post_init__(self) -> None:
        """Refuse a point that does not exist."""
        if self.point not in POINTS:
            raise ReforkError(f"point: {self.point!r}; {allowed_names(self.point, POINTS)}")

    def fit(self, sample: CurveSample) -> ForkFit:
        """Compute the posterior of a question's curves."""
        counts = _effective_counts(sample)
        order = order_of(counts)
        plain = sticks_of(counts, order)
        unsplit = self._levels(sample, np.empty(0, np.int64))
        chosen = probable(
            self.scales,
            self.motion,
            plain,
            unsplit[1],
            informed=not np.isnan(sample.base_probability).all(),
            least=self.least,
            most=self.most,
        )
        tables = self._tables(sample)
        split = tables >= 0
        if split.any():
            time, levels = self._levels(sample, sample.positions[split])
            sticks = self._labelled(_seen_by_branch(sample, order, split), tables)
        else:
            (time, levels), sticks = unsplit, self._plain(plain)
        return ForkFit(
            chosen={
                "labels": "on" if self.labels else "off",
                "point": self.point,
                "drift": sum(scale.drift * weight for scale, weight in chosen),
                "jumps": sum(scale.jumps * weight for scale, weight in chosen),
            },
            positions=sample.positions,
            time=time,
            order=order,
            grid=States.of(self.states),
            regimes=[
                Regime(weight, sticks(self._steps(scale, levels))) for scale, weight in chosen
            ],
            point=self.point,
            widen=self.widen if split.any() else 1.0,
        )

    def _steps(self, scale: Scale, levels: NDArray[np.int64]) -> kernels.Steps:
        moves = transitions(self.states, scale.of(self.motion))
        return kernels.Steps(levels, moves.matrices, moves.transposed)

    def _plain(self, seen: Sequence[Seen]) -> Sticks:
        """Prepare sticks whose draws all observe o_t."""
        grid = States.of(self.states)
        known = list(
            zip(starts(grid, len(seen)), [of.likelihood(grid) for of in seen], strict=True)
        )
        return lambda steps: [PlainChain(steps, *of_stick) for of_stick in known]

    def _labelled(self, seen: Sequence[tuple[Seen, Seen]], tables: NDArray[np.int64]) -> Sticks:
        """Prepare sticks whose draws tell their branch."""
        grid = States.of(self.states)
        splits = Splits(tables, split_tables(self.states, self.spikes))
        likelihoods = [(base.likelihood(grid), other.likelihood(grid)) for base, other in seen]
        known = list(zip(starts(grid, len(seen)), likelihoods, strict=True))
        return lambda steps: [LabelledChain(steps, *of_stick, splits) for of_stick in known]

    def _tables(self, sample: CurveSample) -> NDArray[np.int64]:
        """Give the table of every position's split; there are none where labels are not used."""
        usable = (sample.draws > 0) & self.labels
        return tables_of(sample.base_probability[sample.positions], usable)

    def _levels(
        self, sample: CurveSample, split: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Information time of every token, and the level of every step of the grid."""
        skipped = (sample.draws == 0) & (sample.base_probability[sample.positions] >= SURE)
        time = self.information.time(
            sample.base_probability,
            sample.dropped,
            split=split,
            still=sample.positions[skipped],
        )
        return time, Transitions.level(np.diff(time[sample.positions]))


def _seen_by_branch(
    sample: CurveSample, order: NDArray[np.int64], split: NDArray[np.bool_]
) -> list[tuple[Seen, Seen]]:
    """Give what the sticks saw of the base branch, and of the others at a split.

    Draws of one branch are alike, whatever they weigh in o_t: each base draw counts as one.
    """
    of_base = (sample.branch == 0) | ~split[sample.place]
    base, other = (
        _effective_counts(sample.kept(mask)) if mask.any() else np.zeros_like(sample.counts)
        for mask in (of_base, ~of_base)
    )
    return list(zip(sticks_of(base, order), sticks_of(other, order), strict=True))


def _effective_counts(sample: CurveSample) -> Floats:
    """Scale counts to what weighted draws are worth: (Σ weight)² / Σ weight² a position."""
    if np.all(sample.weight == 1):
        return sample.counts
    size = len(sample.positions)
    total = np.bincount(sample.place, sample.weight, minlength=size)
    square = np.bincount(sample.place, sample.weight**2, minlength=size)
    worth = np.divide(total, square, out=np.ones(size), where=square > 0)
    return sample.counts * worth[:, None]

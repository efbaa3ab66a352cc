"""How fast the curves of a question move: a few scales of the motion, weighed by their evidence.

One set of rates serves all questions well on average, but some curves stand still and some run. A
question's draws say which: scales are tried on a coarse grid of states, forwards only, and those
that the draws make probable go on to the full grid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.chain import PlainChain
from refork.stats.curves.forkhmm.states import Floats, States
from refork.stats.curves.forkhmm.sticks import Seen, starts
from refork.stats.curves.forkhmm.transitions import Motion, transitions

COARSE = 24
"""States of the grid on which scales are tried."""


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


USUAL = (Scale(),)
SCALES = (
    Scale(1, 1, prior=0.7),
    Scale(1, 0.25, prior=0.06),
    Scale(1, 4, prior=0.06),
    Scale(8, 1, prior=0.06),
    Scale(64, 0.25, prior=0.06),
    Scale(64, 1, prior=0.06),
)


def probable(
    scales: Sequence[Scale],
    motion: Motion,
    seen: Sequence[Seen],
    levels: NDArray[np.int64],
    *,
    informed: bool,
    least: float,
    most: int,
) -> list[tuple[Scale, float]]:
    """Find the scales that the draws make probable, and their probabilities, which add to 1.

    Parameters
    ----------
    scales, motion
        The scales to try, of this motion.
    seen
        What every stick saw.
    levels
        Shape (positions − 1,): level of each step.
    informed
        Whether anything is known of the base path. Where it is not, information is a guess, and
        no scale is more usual than another.
    least, most
        Scales less probable than `least` are left out, and all but the `most` probable.
    """
    if len(scales) == 1:
        return [(scales[0], 1.0)]
    grid = States.of(COARSE)
    likelihoods = [stick.likelihood(grid) for stick in seen]
    evidence = np.array(
        [np.log(scale.prior) + _evidence(scale.of(motion), likelihoods, levels) for scale in scales]
    )
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    kept = [place for place in np.argsort(-weight)[:most] if weight[place] >= least]
    return [(scales[place], float(weight[place] / weight[kept].sum())) for place in kept]


def _evidence(motion: Motion, likelihoods: Sequence[Floats], levels: NDArray[np.int64]) -> float:
    moves = transitions(COARSE, motion)
    steps = kernels.Steps(levels, moves.matrices, moves.transposed)
    before = starts(States.of(COARSE), len(likelihoods))
    return sum(
        PlainChain(steps, start, likelihood).evidence
        for start, likelihood in zip(before, likelihoods, strict=True)
    )

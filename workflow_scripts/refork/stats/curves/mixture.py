"""Mixture draws from recorded branches, the same ones for everybody who asks.

A recording holds continuations of every branch of a position. A mixture draw takes a branch by its
renormalised probability and then that branch's next recorded continuation, so the draws of a
position are independent draws of o_t, and the first S of them are what a study of S draws has.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from refork.errors import ReforkError
from refork.stats.curves.sample import CurveSample

NONE = -1
"""Outcome, branch and length of a position that has no draws."""
_SEEDS = {"deepseek": 43_500_000}
_COMMON_SEED = 43_000_000


def seed_of(track: str, row: int) -> tuple[int, int]:
    """Give the seed of the draws of a question: that of its set of recordings, and its number.

    The seeds are those by which others have drawn from the published stores.
    """
    return _SEEDS.get(track, _COMMON_SEED), row


@dataclass(frozen=True)
class Recording:
    """Recorded continuations of every branch of one question.

    A position may be recorded without continuations where its only branch is the base token.

    Parameters
    ----------
    positions
        Shape (P,): token positions, ascending.
    place
        Shape (B,): index into `positions` of every branch, ascending.
    probability
        Shape (B,): probability of the branch's token, among all tokens.
    is_base
        Shape (B,): whether the branch is the base token's; one of every position is.
    outcomes
        B arrays: the category of each continuation of a branch, in the order of recording.
    lengths
        B arrays: tokens of each continuation; `NONE` where unknown.
    categories
        K, the number of categories.
    """

    positions: NDArray[np.int64]
    place: NDArray[np.int64]
    probability: NDArray[np.float64]
    is_base: NDArray[np.bool_]
    outcomes: tuple[NDArray[np.int64], ...]
    lengths: tuple[NDArray[np.int64], ...]
    categories: int

    @cached_property
    def share(self) -> NDArray[np.float64]:
        """Probability of every branch among those of its position, shape (B,)."""
        kept = np.bincount(self.place, self.probability, minlength=len(self.positions))
        return np.asarray(self.probability / kept[self.place])

    @cached_property
    def base_probability(self) -> NDArray[np.float64]:
        """Share of the base token at every token; NaN off the grid. Shape (T,)."""
        return self._by_token(self.share[self.is_base])

    @cached_property
    def dropped(self) -> NDArray[np.float64]:
        """Probability of the tokens that have no branch; NaN off the grid. Shape (T,)."""
        kept = np.bincount(self.place, self.probability, minlength=len(self.positions))
        return self._by_token(np.maximum(1 - kept, 0))

    @cached_property
    def curve(self) -> NDArray[np.float64]:
        """o_t of all continuations, Σ_w p̃_w o_{t,w}; shape (P, K)."""
        curve = np.zeros((len(self.positions), self.categories))
        for place, share, outcome in zip(self.place, self.share, self.outcomes, strict=True):
            if len(outcome):
                curve[place] += (
                    share * np.bincount(outcome, minlength=self.categories) / len(outcome)
                )
        return filled(curve, self.drawn)

    @cached_property
    def drawn(self) -> NDArray[np.bool_]:
        """Whether a position has continuations, shape (P,)."""
        sizes = np.array([len(outcome) for outcome in self.outcomes])
        return np.bincount(self.place, sizes, minlength=len(self.positions)) > 0

    def draw(self, seed: tuple[int, int], size: int = 200) -> "MixtureDraws":
        """Draw from every position that has continuations.

        The generator of the position at token t is `default_rng([*seed, t])`: one call of `choice`
        takes all branches. A branch with no continuation left is drawn again among the others.

        Parameters
        ----------
        seed
            Seed of the recordings and number of the question.
        size
            Draws of a position.

        Raises
        ------
        ReforkError
            A position has fewer continuations than draws are wanted.
        """
        shape = len(self.positions), size
        outcome, branch, length = (np.full(shape, NONE) for _ in range(3))
        starts = np.searchsorted(self.place, np.arange(len(self.positions) + 1))
        for place in np.flatnonzero(self.drawn):
            mine = range(int(starts[place]), int(starts[place + 1]))
            token = int(self.positions[place])
            recorded = np.array([len(self.outcomes[one]) for one in mine])
            if recorded.sum() < size:
                raise ReforkError(
                    f"token {token}: {recorded.sum()} recorded draws, {size} are wanted"
                )
            chosen = _choose(self.share[mine.start : mine.stop], recorded, (*seed, token), size)
            for number, one in enumerate(mine):
                at = chosen == number
                outcome[place, at] = self.outcomes[one][: at.sum()]
                length[place, at] = self.lengths[one][: at.sum()]
            branch[place] = _base_first(self.is_base[mine.start : mine.stop])[chosen]
        return MixtureDraws(
            self.positions,
            outcome,
            branch,
            length,
            self.categories,
            self.base_probability,
            self.dropped,
        )

    def _by_token(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.full(int(self.positions[-1]) + 1, np.nan)
        known[self.positions] = values
        return known


@dataclass(frozen=True)
class MixtureDraws:
    """Draws of one question: `outcome`, `branch` and `length` of shape (P, draws).

    Branch 0 is the base token's; a row of `NONE` is a position without draws. The other fields are
    those of `CurveSample`.
    """

    positions: NDArray[np.int64]
    outcome: NDArray[np.int64]
    branch: NDArray[np.int64]
    length: NDArray[np.int64]
    categories: int
    base_probability: NDArray[np.float64]
    dropped: NDArray[np.float64]

    @cached_property
    def drawn(self) -> NDArray[np.bool_]:
        """Whether a position has draws, shape (P,)."""
        return np.asarray(self.outcome[:, 0] != NONE)

    def sample(self, first: int, size: int, stride: int = 1) -> CurveSample:
        """Take draws `first` to `first + size` of every `stride`-th position.

        The probabilities of the base path are known at every token that was recorded, whatever the
        stride.

        Raises
        ------
        ReforkError
            Fewer than two positions or no draws are left.
        """
        taken = np.arange(0, len(self.positions), stride)
        positions = self.positions[taken]
        place = np.repeat(np.flatnonzero(self.drawn[taken]), size)
        rows = taken[self.drawn[taken]]
        tokens = int(positions[-1]) + 1
        return CurveSample(
            positions=positions,
            place=place,
            branch=self.branch[rows, first : first + size].ravel(),
            outcome=self.outcome[rows, first : first + size].ravel(),
            weight=np.ones(len(place)),
            categories=self.categories,
            base_probability=self.base_probability[:tokens],
            dropped=self.dropped[:tokens],
        )

    def counts(self, first: int = 0, size: int | None = None) -> NDArray[np.int64]:
        """Count draws `first` to `first + size`, all by default; shape (P, K)."""
        block = self.outcome[:, first : None if size is None else first + size]
        cell = np.arange(len(block))[:, None] * self.categories + block
        shape = len(block), self.categories
        drawn = np.bincount(cell[self.drawn].ravel(), minlength=shape[0] * shape[1])
        return drawn.reshape(shape)


def filled(curve: NDArray[np.float64], drawn: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Give positions without draws the curve of the next one that has some; shape (P, K).

    The last ones, which nothing follows, get that of the last with draws.
    """
    at = np.flatnonzero(drawn)
    if len(at) == 0:
        raise ReforkError("no draws at any position")
    following = np.minimum(np.searchsorted(at, np.arange(len(curve))), len(at) - 1)
    return curve[at[following]]


def _choose(
    share: NDArray[np.float64], recorded: NDArray[np.int64], seed: tuple[int, ...], size: int
) -> NDArray[np.int64]:
    """Draw branches; one that is exhausted is drawn again among those that are not."""
    random = np.random.default_rng(list(seed))
    chosen = random.choice(len(share), size=size, p=share)
    if np.all(np.bincount(chosen, minlength=len(share)) <= recorded):
        return chosen
    left = recorded.copy()
    for draw, branch in enumerate(chosen):
        if left[branch] == 0:
            weight = np.where(left > 0, share, 0)
            chosen[draw] = random.choice(len(share), p=weight / weight.sum())
        left[chosen[draw]] -= 1
    return chosen


def _base_first(is_base: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Give the base token's branch number 0, the others 1 and on, in their order."""
    base = int(np.argmax(is_base))
    number = np.arange(len(is_base))
    return np.where(number == base, 0, number + (number < base))

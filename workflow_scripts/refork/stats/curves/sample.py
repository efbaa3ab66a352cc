"""Draws of one question along its grid: what every estimator of an outcome curve is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refork.errors import ReforkError, raise_if_any
from refork.stats.curves.sample_checks import count_faults, shape_faults, value_faults

RARE = 0.01
"""Share that the curve of a category must exceed somewhere to keep a curve of its own."""


@dataclass(frozen=True)
class CurveSample:
    """Draws of one question along its grid.

    A position without draws is allowed: one whose only branch is the base token needs none of its
    own, for its curve is that of the next token.

    Parameters
    ----------
    positions
        Shape (P,): token positions of the grid, ascending, two at least.
    place
        Shape (N,): index into `positions` of every draw, ascending; draws of a place are in the
        order in which they were drawn.
    branch
        Shape (N,): branch of every draw; 0 is the base token's.
    outcome
        Shape (N,): category of every draw, below `categories`.
    weight
        Shape (N,): 1 for mixture draws. Draws of S a branch carry the weight of their branch; the
        weights of a position add to its number of draws.
    categories
        K, the number of categories.
    base_probability
        Shape (T,), T = positions[-1] + 1: probability of the base token at every token, among the
        branches that are kept; NaN where it is unknown.
    dropped
        Shape (T,): probability of all tokens below the branch threshold; NaN where it is unknown.

    Raises
    ------
    ReforkError
        The arrays are no such sample; the message lists every fault.
    """

    positions: NDArray[np.int64]
    place: NDArray[np.int64]
    branch: NDArray[np.int64]
    outcome: NDArray[np.int64]
    weight: NDArray[np.float64]
    categories: int
    base_probability: NDArray[np.float64]
    dropped: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse arrays that are no sample."""
        raise_if_any(list(shape_faults(self)))
        raise_if_any(list(value_faults(self)))

    @cached_property
    def counts(self) -> NDArray[np.float64]:
        """Weighted number of draws of every category, shape (P, K)."""
        shape = len(self.positions), self.categories
        cell = self.place * self.categories + self.outcome
        flat = np.bincount(cell, self.weight, minlength=shape[0] * shape[1])
        return flat.astype(np.float64, copy=False).reshape(shape)

    @cached_property
    def draws(self) -> NDArray[np.int64]:
        """Number of draws of every position, shape (P,)."""
        return np.bincount(self.place, minlength=len(self.positions))

    @cached_property
    def observed(self) -> NDArray[np.int64]:
        """Indices of the positions that have draws, ascending."""
        return np.flatnonzero(self.draws)

    def branch_counts(self, of_base: bool) -> NDArray[np.float64]:
        """Count only the draws of the base token's branch, or only the others; shape (P, K)."""
        return self.kept((self.branch == 0) == of_base, rescaled=False).counts

    def kept(self, mask: NDArray[np.bool_], *, rescaled: bool = True) -> "CurveSample":
        """Keep the draws in a mask of shape (N,).

        Raises
        ------
        ReforkError
            No draw is left.
        """
        weight, place = self.weight[mask], self.place[mask]
        if rescaled and not np.all(weight == 1):
            size = len(self.positions)
            total = np.bincount(place, weight, minlength=size)
            number = np.bincount(place, minlength=size)
            weight = weight * (number / np.where(total > 0, total, 1))[place]
        return self._with(place, self.branch[mask], self.outcome[mask], weight)

    def folds(self, number: int, *, by_branch: bool = True) -> NDArray[np.int64]:
        """Deal the draws of every position into folds, as evenly as their number allows.

        Folds are contiguous in the order of the draws, so that they are alike to runs with fewer
        draws. With `by_branch` they are contiguous within every branch, and every branch is spread
        over all folds; the folds of a position then still differ by one draw at most.

        Returns
        -------
        Shape (N,): fold of every draw, from 0. With fewer draws than folds at a position some folds
        hold none of its draws.

        Raises
        ------
        ReforkError
            There are fewer than two folds.
        """
        if number < 2:
            raise ReforkError(f"folds: {number}; a cross-validation needs two at least")
        group = self.branch if by_branch else np.zeros_like(self.branch)
        order = np.lexsort((group, self.place))  # stable: draws of a branch stay in their order
        fold = np.empty(len(order), np.int64)
        fold[order] = _dealt(self.place[order], group[order], number)
        return fold

    def collapsed(self, other: int | None = None, *, rare: float = RARE) -> "Collapsed":
        """Merge the categories whose observed share exceeds `rare` at no position.

        They join category `other` where one is given, else one another.
        """
        total = self.counts.sum(axis=1, keepdims=True)
        share = self.counts / np.where(total > 0, total, 1)
        merged = share.max(axis=0) <= rare
        if other is not None and merged.any():
            merged[other] = True
        kept = np.flatnonzero(~merged)
        into = np.full(self.categories, len(kept))
        into[kept] = np.arange(len(kept))
        categories = len(kept) + bool(merged.any())
        outcome = into[self.outcome]
        sample = self._with(self.place, self.branch, outcome, self.weight, categories)
        return Collapsed(sample, into, _inner_shares(into, self.counts.sum(axis=0)))

    def _with(
        self,
        place: NDArray[np.int64],
        branch: NDArray[np.int64],
        outcome: NDArray[np.int64],
        weight: NDArray[np.float64],
        categories: int | None = None,
    ) -> "CurveSample":
        """Make a sample on the same grid; it is right as this one is, so no check is repeated."""
        if len(place) == 0:
            raise ReforkError("no draw is left at any position")
        made = object.__new__(CurveSample)
        fields: dict[str, Any] = {
            "positions": self.positions,
            "place": place,
            "branch": branch,
            "outcome": outcome,
            "weight": weight,
            "categories": self.categories if categories is None else categories,
            "base_probability": self.base_probability,
            "dropped": self.dropped,
        }
        made.__dict__.update(fields)
        return made


@dataclass(frozen=True)
class Collapsed:
    """A sample whose rare categories are one, and the way back.

    `into` of shape (K,) is the category of `sample` that each category went to, `share` of shape
    (K,) its part of that category's draws.
    """

    sample: CurveSample
    into: NDArray[np.int64]
    share: NDArray[np.float64]

    def expand(self, curve: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give a curve of shape (Q, K′) in all categories, shape (Q, K)."""
        return curve[:, self.into] * self.share


def sample_from_counts(
    positions: Sequence[int] | NDArray[np.int64],
    counts: NDArray[np.number[Any]],
    *,
    base_probability: NDArray[np.float64] | None = None,
    dropped: NDArray[np.float64] | None = None,
    seed: int = 0,
) -> CurveSample:
    """Make a sample of mixture draws from their counts of shape (P, K).

    Counts know neither order nor branch: the draws of a position are shuffled by `seed`, all in
    branch 0.

    Raises
    ------
    ReforkError
        Counts are negative, not whole, or of another shape than the positions.
    """
    grid, table = np.asarray(positions), np.asarray(counts)
    if table.ndim != 2 or len(table) != len(grid):
        raise ReforkError(
            f"counts: shape {table.shape}; a row a position and a column a category are wanted, "
            f"and there are {len(grid)} positions"
        )
    raise_if_any(list(count_faults(table)))
    whole = table.astype(np.int64)
    place = np.repeat(np.arange(len(grid)), whole.sum(axis=1))
    outcome = np.repeat(np.tile(np.arange(whole.shape[1]), len(grid)), whole.ravel())
    shuffled = np.lexsort((np.random.default_rng(seed).random(len(outcome)), place))
    tokens = int(grid[-1]) + 1 if len(grid) and grid[-1] >= 0 else 0
    unknown = np.full(tokens, np.nan)
    return CurveSample(
        positions=grid,
        place=place,
        branch=np.zeros(len(place), np.int64),
        outcome=outcome[shuffled],
        weight=np.ones(len(place)),
        categories=whole.shape[1],
        base_probability=unknown if base_probability is None else base_probability,
        dropped=unknown if dropped is None else dropped,
    )


def _dealt(place: NDArray[np.int64], group: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Deal draws, sorted by place and group, into folds: contiguous in each group of a place.

    Each of the folds gets the same number of a group's draws, and the surplus of a group goes to
    the folds behind those that took the surplus of the group before at that place.
    """
    new_place = np.r_[True, np.diff(place) != 0]
    new_run = new_place | np.r_[True, np.diff(group) != 0]  # draws of a group at a place are a run
    first = np.flatnonzero(new_run)
    each, surplus = np.divmod(np.diff(np.r_[first, len(place)]), number)
    before = np.cumsum(surplus) - surplus  # surplus that was dealt before, over all places
    begins = new_place[first]
    start = (before - before[begins][np.cumsum(begins) - 1]) % number
    extra = (np.arange(number) - start[:, None]) % number < surplus[:, None]
    ends = np.cumsum(each[:, None] + extra, axis=1)  # rank at which each fold of a run ends
    run = np.cumsum(new_run) - 1
    rank = np.arange(len(place)) - first[run]
    fold = np.zeros(len(place), np.int64)
    for end in ends.T:
        fold += rank >= end[run]
    return fold


def _inner_shares(into: NDArray[np.int64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Part of each category in what it was merged into: by its draws, evenly where none were."""
    merged = np.bincount(into, total)[into]
    size = np.bincount(into)[into]
    return np.where(merged > 0, total / np.where(merged > 0, merged, 1), 1 / size)

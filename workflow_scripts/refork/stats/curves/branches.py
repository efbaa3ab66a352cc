"""Which tokens the curve of a rollout branches into at every token, and with which probability.

A continuation at a token starts with one of its branches. Probabilities are of the distribution
that continuations are drawn from: at their temperature, then top-k, then top-p, as engines draw.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDING = 1e-6  # of the mass of float32 log-probabilities


@dataclass(frozen=True)
class Sampling:
    """How continuations are drawn; temperature 0 is greedy, top_p 1 and top_k 0 leave all."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True)
class BranchRule:
    """A branch has this probability at least; there are so many at most, the rollout's included."""

    min_probability: float
    max_branches: int


@dataclass(frozen=True)
class Branches:
    """Branches of n generated tokens, B the largest number of any.

    Parameters
    ----------
    count
        Shape (n,): number of branches, 1 at least.
    tokens
        Shape (n, B): the token that the rollout drew, then the others, the most probable first;
        only the first `count` of a row count.
    probabilities
        Shape (n, B): of the branches among one another, so that they add to 1; 0 behind them.
    dropped
        Shape (n,): probability of all tokens that are no branch.
    """

    count: Integers
    tokens: Integers
    probabilities: Floats
    dropped: Floats


def find_branches(
    token_ids: NDArray[np.integer],
    logprobs: NDArray[np.floating],
    top_token_ids: NDArray[np.integer],
    top_logprobs: NDArray[np.floating],
    *,
    sampling: Sampling,
    rule: BranchRule,
) -> Branches:
    """Find the branches of every generated token of a rollout.

    The token that the rollout drew is always one, even where continuations would never draw it; a
    position where no branch has any mass has that token alone.

    Away from temperature 1 the mass of tokens that were not recorded is unknown. It is taken as if
    each of them were as probable as the least recorded one: so it is right at temperature 1, and
    below it at most that.

    Parameters
    ----------
    token_ids, logprobs
        Generated tokens and their log-probabilities, shape [n].
    top_token_ids, top_logprobs
        The k most probable tokens, best first, shape [n, k]; at most k others can be branches. All
        log-probabilities are raw: natural, at temperature 1, before top-k and top-p.
    """
    again = top_token_ids == token_ids[:, None]
    others = np.where(again, -np.inf, top_logprobs.astype(np.float64))
    known = np.concatenate([logprobs.astype(np.float64)[:, None], others], axis=1)
    drawn = _drawn(known, top_logprobs.astype(np.float64), sampling)
    kept = (drawn >= rule.min_probability) & (drawn > 0)
    kept[:, 0] = True
    kept[:, 1:] &= np.cumsum(kept[:, 1:], axis=1) < rule.max_branches
    mass = np.where(kept, drawn, 0.0)
    total = mass.sum(axis=1, keepdims=True)
    share = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
    share[total[:, 0] <= 0, 0] = 1.0

    count = kept.sum(axis=1)
    width = int(count.max(initial=1))
    order = np.argsort(~kept, axis=1, kind="stable")[:, :width]
    tokens = np.concatenate([token_ids[:, None], top_token_ids], axis=1)
    return Branches(
        count=count,
        tokens=np.take_along_axis(tokens, order, axis=1).astype(np.int64),
        probabilities=np.take_along_axis(share, order, axis=1),
        dropped=np.clip(1 - total[:, 0], 0.0, 1.0),
    )


def _drawn(known: Floats, ranked: Floats, sampling: Sampling) -> Floats:
    """Probabilities with which continuations draw the known tokens, shape [n, 1 + k].

    `known` has the rollout's token first, then the most probable ones with −∞ where it stands
    again; `ranked` are the log-probabilities of the most probable ones, best first.
    """
    if sampling.temperature == 0:
        greedy = np.zeros_like(known)
        greedy[np.arange(len(known)), np.where(np.isneginf(known[:, 1]), 0, 1)] = 1.0
        return greedy
    best = ranked[:, :1]
    weight = np.exp((known - best) / sampling.temperature)
    number = _unrecorded(known, ranked[:, -1])
    if sampling.top_k > 0:
        least = ranked[:, min(sampling.top_k, ranked.shape[1]) - 1]
        if sampling.top_k <= ranked.shape[1]:
            weight[known < least[:, None]] = 0.0
        number = np.clip(number, 0.0, np.maximum(sampling.top_k - (weight > 0).sum(axis=1), 0))
    rest = number * np.exp((ranked[:, -1] - best[:, 0]) / sampling.temperature)
    if sampling.top_p < 1:
        needed = sampling.top_p * (weight.sum(axis=1) + rest)
        weight[weight < _nucleus(weight, needed)[:, None]] = 0.0
        rest = np.clip(needed - weight.sum(axis=1), 0.0, rest)
    drawn: Floats = weight / (weight.sum(axis=1) + rest)[:, None]
    return drawn


def _unrecorded(known: Floats, least: Floats) -> Floats:
    """How many tokens as probable as the least recorded one have the unrecorded mass, shape [n]."""
    mass = 1 - np.exp(known).sum(axis=1)
    return np.where(mass > _ROUNDING, mass, 0.0) * np.exp(-np.where(mass > _ROUNDING, least, 0.0))


def _nucleus(weight: Floats, needed: Floats) -> Floats:
    """Give the least of the largest weights of each row that reach together what is needed."""
    ordered = -np.sort(-weight, axis=1)
    inside = np.cumsum(ordered, axis=1) - ordered < needed[:, None]
    last = np.maximum(inside.sum(axis=1), 1) - 1
    return np.take_along_axis(ordered, last[:, None], axis=1)[:, 0]

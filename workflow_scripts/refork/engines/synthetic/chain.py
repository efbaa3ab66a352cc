"""The Markov chain of the synthetic engine, and what is known of it in closed form.

The next token depends on the last one alone. Before the first token the chain is in one of its
start states, which the prompt chooses. A rollout ends with the end token, which follows conclusions
only, so the conclusion that it follows is the outcome.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

TRUNCATED = "truncated"


@dataclass(frozen=True)
class Chain:
    """A Markov chain over tokens.

    Attributes
    ----------
    token_ids
        Ids of the G tokens that can be generated, ascending.
    transitions
        Probability of the next token, shape (G + S, G): a row a token, then a row a start state.
    end
        Index of the end token.
    conclusions
        Outcome by the index of the token that concludes on it.
    """

    token_ids: NDArray[np.int32]
    transitions: Floats
    end: int
    conclusions: dict[int, str]

    @property
    def starts(self) -> int:
        """Number S of start states."""
        return len(self.transitions) - len(self.token_ids)

    def start(self, prompt: ArrayLike) -> int:
        """Return the start state that a prompt (token ids) chooses, by a hash."""
        content = np.asarray(prompt, dtype="<i4").tobytes()
        digest = hashlib.blake2b(content, digest_size=8).digest()
        return len(self.token_ids) + int.from_bytes(digest, "little") % self.starts

    def indices(self, token_ids: ArrayLike) -> Indices:
        """Return the states of tokens, -1 for those that the chain cannot generate."""
        asked = np.asarray(token_ids)
        place = np.searchsorted(self.token_ids, asked).clip(max=len(self.token_ids) - 1)
        return np.where(self.token_ids[place] == asked, place, -1)


def sampling_probabilities(
    transitions: Floats, temperature: float, top_p: float = 1.0, top_k: int = 0
) -> Floats:
    """Return what is drawn from: rows sharpened by the temperature, cut by top-k, then by top-p.

    Top-p keeps the fewest tokens, best first, that hold at least this mass. Temperature 0 is
    greedy; of equal probabilities the lower index comes first. Rows sum to 1.
    """
    order = np.argsort(-transitions, axis=1, kind="stable")
    best = np.take_along_axis(transitions, order, axis=1)
    if temperature == 0:
        kept = np.zeros_like(best)
        kept[:, 0] = 1.0
    else:
        kept = (best / best[:, :1]) ** (1.0 / temperature)
        if top_k > 0:
            kept[:, top_k:] = 0.0
        kept /= kept.sum(axis=1, keepdims=True)
        if top_p < 1:
            kept[np.cumsum(kept, axis=1) - kept >= top_p] = 0.0
            kept /= kept.sum(axis=1, keepdims=True)
    probabilities = np.zeros_like(transitions)
    np.put_along_axis(probabilities, order, kept, axis=1)
    return probabilities


def outcome_distribution(
    chain: Chain, probabilities: Floats, state: int, max_tokens: int | None = None
) -> dict[str, float]:
    """Return the probability of each outcome of a continuation from `state`, in closed form.

    Without a limit it solves the absorbing chain, o = (I - Q)⁻¹ R, with Q the transitions among
    tokens other than the end and R those from a conclusion to the end; with a limit it sums R over
    the powers of Q, and what has not ended is truncated.

    Parameters
    ----------
    probabilities
        `sampling_probabilities` of the chain's transitions.
    state
        Index of the last token, or a start state.
    max_tokens
        Generated tokens at most, the end token counted; None: no limit.
    """
    alive = np.arange(len(chain.token_ids)) != chain.end
    inner = probabilities[: len(alive)][np.ix_(alive, alive)]
    ending = probabilities[: len(alive), chain.end][alive]
    first, ends_now = probabilities[state, alive], float(probabilities[state, chain.end])
    if max_tokens is None:
        visits = np.linalg.solve((np.eye(len(inner)) - inner).T, first)
        left = 0.0
    else:
        visits, left, mass = np.zeros(len(inner)), 1.0, first
        if max_tokens > 0:
            for _ in range(max_tokens - 1):
                visits, mass = visits + mass, mass @ inner
            left = float(mass.sum())
    ended = np.zeros(len(alive))
    ended[alive] = visits * ending
    if state < len(alive) and max_tokens != 0:
        ended[state] += ends_now
    distribution = {label: float(ended[index]) for index, label in chain.conclusions.items()}
    return {**distribution, TRUNCATED: left}


def credit(
    chain: Chain,
    probabilities: Floats,
    *,
    actual: int,
    alt: int,
    right: str,
    max_tokens: int | None = None,
) -> float:
    """Return the credit of a pivot: P(right | actual token) - P(right | alternative token).

    `actual` and `alt` are indices of tokens, `max_tokens` counts the tokens behind the forced one.
    """
    taken, other = (
        outcome_distribution(chain, probabilities, state, max_tokens) for state in (actual, alt)
    )
    return taken[right] - other[right]

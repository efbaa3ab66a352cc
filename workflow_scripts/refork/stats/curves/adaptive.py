"""Where the next draws are worth most: a budget of generated tokens, spent in rounds.

After each round the curves are estimated anew, and the next part of the budget goes where they are
uncertain and draws are short. The budget is pooled: a question whose curve is known gets no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refork.errors import ReforkError

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

BISECTIONS = 60
"""Of the scale of all wishes: enough for every bit of a double that counts."""


@dataclass(frozen=True)
class Need:
    """What is known of one question's curve, by position of its grid.

    Parameters
    ----------
    uncertainty
        Shape (P,): expected total variation between the estimate and the curve; half the sum of the
        categories' standard deviations stands for it.
    length
        Shape (P,): generated tokens that a draw costs, above 0.
    draws
        Shape (P,): draws that there are.
    drawable
        Shape (P,): whether the position may have draws of its own.
    """

    uncertainty: Floats
    length: Floats
    draws: Whole
    drawable: NDArray[np.bool_]


def allot(needs: Sequence[Need], budget: float, most: int, seed: int) -> list[Whole]:
    """Spend a budget: further draws of every position, one array (P,) a question.

    Draws in all, those that there are included, grow as √(s/(cP)): s is the uncertainty, c the
    length of a draw and P the number of the question's positions, for a question counts once
    however long it is. Steeper rules did worse on recorded questions. Where there are more already,
    none are added. What is left of a draw is rounded up with its probability, so that the expected
    cost is the budget.

    Parameters
    ----------
    needs
        Of all questions.
    budget
        Generated tokens.
    most
        Draws that a position may have in all.
    seed
        Of the rounding.

    Raises
    ------
    ReforkError
        The budget is not above 0.
    """
    if not budget > 0:
        raise ReforkError(f"budget: {budget:g} tokens; it must be above 0")
    if not needs:
        return []
    wish = np.concatenate([_wish(need) for need in needs])
    draws = np.concatenate([need.draws for need in needs])
    length = np.concatenate([need.length for need in needs])
    room = np.maximum(most - draws, 0)

    def added(scale: float) -> Floats:
        return np.asarray(np.clip(scale * wish - draws, 0, room))

    low, high = 0.0, _enough(wish, most)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        fits = added(middle) @ length <= budget
        low, high = (middle, high) if fits else (low, middle)
    exact = added(low)
    whole = np.floor(exact + np.random.default_rng(seed).random(len(exact))).astype(np.int64)
    ends = np.cumsum([len(need.draws) for need in needs])[:-1]
    return np.split(np.minimum(whole, room), ends)


def expected_lengths(positions: Whole, observed: Whole, length: Floats) -> Floats:
    """Guess what a draw costs at every position from the mean lengths where there are some.

    Linear between them and level beyond; shapes (P,), (n,) indices ascending, (n,).

    Raises
    ------
    ReforkError
        There are none.
    """
    if len(observed) == 0:
        raise ReforkError("no position has draws whose length could be looked at")
    guess = np.interp(positions, positions[observed], length)
    return np.maximum(guess, 1.0)


def _wish(need: Need) -> Floats:
    wish = np.sqrt(need.uncertainty / (need.length * len(need.draws)))
    return np.where(need.drawable, wish, 0.0)


def _enough(wish: Floats, most: int) -> float:
    """Give a scale at which every position with a wish has all the draws that it may."""
    some = wish[wish > 0]
    return float(most / some.min()) if len(some) else 0.0

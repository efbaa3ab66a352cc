"""Letters of choices, and the order in which a rollout shows them."""

import hashlib
import json
from collections.abc import Sequence

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""A question has at most 26 choices: an answer is one letter, which cannot be taken for a word."""


def choice_order(seed: int, question_id: str, rollout: int, count: int) -> list[int]:
    """Order in which a rollout shows the choices of a question.

    Each choice gets a number hashed from (study seed, question, rollout, choice) and the choices
    are sorted by it: every order is equally likely and depends on nothing else.
    """

    def number(choice: int) -> bytes:
        key = json.dumps([seed, question_id, rollout, choice], separators=(",", ":"))
        return hashlib.blake2b(key.encode("ascii"), digest_size=16).digest()

    return sorted(range(count), key=number)


def permuted(
    choices: Sequence[str], answer: str, order: Sequence[int]
) -> tuple[tuple[str, ...], str]:
    """Choices in another order, and the letter that the answer has there."""
    shown = tuple(choices[place] for place in order)
    return shown, LETTERS[list(order).index(LETTERS.index(answer))]

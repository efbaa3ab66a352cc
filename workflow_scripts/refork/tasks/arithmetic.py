"""Arithmetic word problems made to order: short questions whose answer is a whole number.

Every question is an instance of a template: names, things and numbers are drawn, and the answer is
computed along its steps. Small numbers, so that a small model is sometimes right.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import TypeAlias

from refork.errors import ReforkError
from refork.tasks.arithmetic_templates import (
    EXAMPLE_TEMPLATES,
    NAMES,
    OPERATIONS,
    TEMPLATES,
    THINGS,
    Template,
)
from refork.tasks.examples import Example
from refork.tasks.numbers import number_label
from refork.tasks.questions import Question

MOST = 5000
"""Questions of one seed at most; every kind has more than twice its share of different texts."""

Numbers: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Problem:
    """An instance of a template: its text, the numbers of its slots and steps, and its words."""

    template: Template
    text: str
    numbers: Numbers
    words: Mapping[str, str]

    @property
    def answer(self) -> int:
        """What the last step gives."""
        return self.numbers[self.template.steps[-1].result]

    @property
    def worked(self) -> str:
        """Return a chain of thought: every step, the conclusion, and the answer behind a marker."""
        lines = [
            f"{self.numbers[step.left]} {step.sign} {self.numbers[step.right]}"
            f" = {self.numbers[step.result]}"
            for step in self.template.steps
        ]
        said = self.template.conclusion.format_map({**self.words, **self.numbers})
        return f"{', then '.join(lines)}, so {said}.\nAnswer: {self.answer}"


def generate(number: int, seed: int) -> list[Question]:
    """Make a number of different questions, the kinds in turn; more of a seed begin with these.

    Raises
    ------
    ReforkError
        The number is not in 1 to `MOST`.
    """
    if not 1 <= number <= MOST:
        raise ReforkError(f"{number} questions: allowed are 1 to {MOST}")
    seen: set[str] = set()
    return [_question(place, seed, seen) for place in range(number)]


def worked_examples(seed: int) -> list[Example]:
    """Make one worked example of every example template; no question has one of these."""
    problems = [make_problem(template, f"{seed}/example") for template in EXAMPLE_TEMPLATES]
    return [Example(problem.text, problem.worked) for problem in problems]


def make_problem(template: Template, key: str) -> Problem:
    """Make the instance of a template that belongs to a key; equal keys give equal instances."""
    draws = _Draws(f"{key}/{template.kind}")
    name, other = draws.two(NAMES, "name")
    thing, rest = draws.two(THINGS, "thing")
    words = {"name": name, "other": other, "things": thing, "others": rest}
    numbers = {
        slot: low + draws.below(high - low + 1, slot)
        for slot, (low, high) in template.ranges.items()
    }
    for step in (*template.derived, *template.steps):
        numbers[step.result] = OPERATIONS[step.sign](numbers[step.left], numbers[step.right])
    return Problem(template, template.text.format_map({**words, **numbers}), numbers, words)


def _question(place: int, seed: int, seen: set[str]) -> Question:
    """Make the question of a place, drawn again while its text is among those `seen`."""
    turn, which = divmod(place, len(TEMPLATES))
    template = TEMPLATES[which]
    instances = (make_problem(template, f"{seed}/{turn}/{draw}") for draw in count())
    problem = next(instance for instance in instances if instance.text not in seen)
    seen.add(problem.text)
    label = number_label(Fraction(problem.answer))
    return Question(f"{template.kind}-{turn + 1}", "number", problem.text, label)


class _Draws:
    """Draws from a hash of what they are for: the same on every machine and Python version."""

    def __init__(self, key: str) -> None:
        self._key = key

    def below(self, bound: int, what: str) -> int:
        digest = hashlib.sha256(f"{self._key}/{what}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % bound

    def two(self, of: tuple[str, ...], what: str) -> tuple[str, str]:
        """Draw two different ones."""
        first = self.below(len(of), what)
        second = (first + 1 + self.below(len(of) - 1, f"other {what}")) % len(of)
        return of[first], of[second]

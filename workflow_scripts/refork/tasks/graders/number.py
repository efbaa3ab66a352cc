"""The number that a completion answers."""

import re
from fractions import Fraction

from refork.tasks.graders.statements import statements
from refork.tasks.numbers import Number, find_numbers, number_label
from refork.tasks.plain import plain

_SENTENCE = re.compile(r"[^\n.!?]*(?:[.](?=\S)[^\n.!?]*)*")
_WORKING = re.compile(r"\s*(?:[a-z]\s*=|[-\s0-9.,+−–*/×x÷·^()%]*=)", re.IGNORECASE)
_MARKER = re.compile(r"\s*(?:step\s+)?[0-9]{1,2}[.):](?=\s+\S)", re.IGNORECASE)
_DENIAL = re.compile(r"not\b", re.IGNORECASE)


def grade_number(text: str, answer: str) -> str | None:
    r"""Label of the number that a completion gives (`number_label`), or None.

    The last of `\boxed{n}`, 'Answer: n', 'the answer is n' and '#### n' wins; where there is none,
    the last number does. A percentage equal to the answer either way gets the answer's label.
    """
    text = plain(text)
    number = _stated_number(text) or _last_number(text)
    if number is None:
        return None
    right = Fraction(answer)
    return number_label(right if number.equals(right) else number.value)


def _stated_number(text: str) -> Number | None:
    stated = None
    for _, value in statements(text):
        if _DENIAL.match(value):
            continue
        sentence = _SENTENCE.match(value)[0]  # type: ignore[index]
        while (working := _WORKING.match(sentence)) is not None:
            sentence = sentence[working.end() :]
        stated = next(find_numbers(sentence), stated)
    return stated


def _last_number(text: str) -> Number | None:
    for line in reversed(text.splitlines()):
        last = None
        marker = _MARKER.match(line)
        for number in find_numbers(line[marker.end() :] if marker else line):
            last = number
        if last is not None:
            return last
    return None

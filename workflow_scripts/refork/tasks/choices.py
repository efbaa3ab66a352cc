"""The choices of a question, and which of them the source's answer means."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refork.tasks.letters import LETTERS


class BadFieldError(ValueError):
    """A field of a row is no good; the message is for people."""


@dataclass(frozen=True)
class Choices:
    """Texts of choices in the source's order, and its name of each (A, B, … by default)."""

    texts: tuple[str, ...]
    names: tuple[str, ...]


def read_choices(value: Any) -> Choices:
    """Read a list of texts, {name: text}, {"text": […], "label": […]}, or any of these as JSON.

    Raises
    ------
    BadFieldError
        It is none of these, or has fewer than two or more than 26 choices, or an empty one.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadFieldError(f"not a JSON list ({error}): {value[:60]!r}") from error
    names: Sequence[Any] | None = None
    if isinstance(value, Mapping) and {"text", "label"} <= set(value):
        value, names = value["text"], value["label"]
    elif isinstance(value, Mapping):
        value, names = list(value.values()), list(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadFieldError(f"not a list of choices: {str(value)[:60]!r}")
    texts = tuple("" if text is None else str(text).strip() for text in value)
    if not 2 <= len(texts) <= len(LETTERS):
        raise BadFieldError(f"{len(texts)} choices; allowed: 2 to {len(LETTERS)}")
    if "" in texts:
        raise BadFieldError(f"choice {LETTERS[texts.index('')]} is empty")
    names = LETTERS[: len(texts)] if names is None else names
    if len(names) != len(texts):
        raise BadFieldError(f"{len(texts)} choices, but {len(names)} labels")
    return Choices(texts, tuple(str(name).strip() for name in names))


def answer_letter(answer: Any, choices: Choices) -> str:
    """Letter of the choice that an answer means: by name, by text, or by its index (an int).

    Raises
    ------
    BadFieldError
        It means none of the choices, or could mean two of them.
    """
    text = str(answer).strip()
    bare = text.removeprefix("(").removesuffix(")").removesuffix(".")
    meant = {place for place, choice in enumerate(choices.texts) if choice == text}
    meant |= {
        place for place, name in enumerate(choices.names) if name.casefold() == bare.casefold()
    }
    if isinstance(answer, int) and 0 <= answer < len(choices.texts):
        meant.add(answer)
    if not meant:
        last = len(choices.texts) - 1
        allowed = (
            f"a letter {LETTERS[0]} to {LETTERS[last]}, the text of a choice, "
            f"or its index 0 to {last}"
        )
        raise BadFieldError(f"{answer!r} is not among the choices; allowed: {allowed}")
    if len(meant) > 1:
        letters = " or ".join(LETTERS[place] for place in sorted(meant))
        raise BadFieldError(
            f"{answer!r} could mean {letters}; give it as a letter that no choice is"
        )
    return LETTERS[meant.pop()]

"""The one error that is written for people: how it is worded, and how a program ends with it.

Bad input is reported in full: every fault with its place, in one error.
"""

import difflib
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec

P = ParamSpec("P")

SHOWN_FAULTS = 20
"""Faults written out in one error; the rest is counted."""


class ReforkError(Exception):
    """Something the user can mend: the message says what was wrong, where, what is allowed.

    It may quote what a file or a model holds, so nothing in it commands a terminal.
    """

    def __str__(self) -> str:
        """Return the message, characters that are not printed written as their codes."""
        return "".join(
            letter
            if letter.isprintable() or letter == "\n"
            else letter.encode("unicode_escape").decode()
            for letter in super().__str__()
        )


class EngineError(ReforkError):
    """An engine broke a promise or cannot do what was asked; the message names the question."""


def listed(faults: Sequence[str]) -> ReforkError:
    """Make one error of all faults; there is one at least."""
    if len(faults) == 1:
        return ReforkError(faults[0])
    lines = [f"{len(faults)} errors", *faults[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        lines.append(f"… and {len(faults) - SHOWN_FAULTS} more")
    return ReforkError("\n  ".join(lines))


def raise_if_any(faults: Sequence[str]) -> None:
    """Raise one `ReforkError` that lists the faults, where there are any."""
    if faults:
        raise listed(faults)


def allowed_names(name: str, allowed: Iterable[str]) -> str:
    """Say what is allowed in place of `name`, and which of it is nearest."""
    names = list(allowed)
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"allowed: {', '.join(names)}{hint}"


def exit_in_words(program: Callable[P, int]) -> Callable[P, int]:
    """Turn a `ReforkError` of a program into words on stderr and exit status 1, no traceback."""

    @functools.wraps(program)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return program(*args, **kwargs)
        except ReforkError as error:
            print(f"refork: {error}", file=sys.stderr)
            return 1

    return wrapped

"""The one error that is written for people, and how a program ends with it."""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


class ReforkError(Exception):
    """Something the user can mend: the message says what was wrong, where, what is allowed."""


class EngineError(ReforkError):
    """An engine broke a promise or cannot do what was asked; the message names the question."""


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

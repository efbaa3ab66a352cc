"""The outcome that a regular expression of the user's finds."""

from functools import lru_cache

import regex

from refork.errors import ReforkError


@lru_cache(maxsize=16)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile `grading.pattern`.

    Raises
    ------
    ReforkError
        It is no regular expression, or it has no group.
    """
    try:
        expression = regex.compile(pattern)
    except regex.error as error:
        raise ReforkError(f"grading.pattern: {pattern!r}: {error}") from error
    if expression.groups == 0:
        raise ReforkError(
            f"grading.pattern: {pattern!r} has no group; its first group, in round brackets,"
            " is the outcome"
        )
    return expression


def last_group(text: str, pattern: str, timeout: float) -> str | None:
    """First group of the pattern's last match, or None.

    Raises
    ------
    ReforkError
        The pattern took over `timeout` seconds: it backtracks, which the user can mend.
    """
    found = None
    try:
        for match in compiled(pattern).finditer(text, timeout=timeout):
            found = match[1]
    except TimeoutError as error:
        raise ReforkError(
            f"grading.pattern: {pattern!r} took over {timeout:g} s on one completion;"
            " write it without nested repetitions"
        ) from error
    return None if found is None else found.strip()

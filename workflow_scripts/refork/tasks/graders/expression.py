"""The mathematical expression that a completion answers, by math-verify."""

import gc
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

from math_verify import parse, verify

# It says what it could not parse; here that is an outcome and no news.
logging.getLogger("math_verify").setLevel(logging.CRITICAL)
logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)

# The first comparison loads much of sympy: no completion pays for that out of its own time.
verify(*(parse(text, parsing_timeout=None) for text in ("$x^2+2x+1$", "$(x+1)^2$")))


_AGAIN = 0.1
"""Seconds of CPU time from one attempt to stop to the next."""


class _OutOfTimeError(BaseException):
    """Not an `Exception`, for math-verify swallows those."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Stop what runs inside after so many seconds of this process's own CPU time.

    CPU time, so that a busy machine changes no outcome. Only in the main thread: it uses a signal.
    What is raised in a finaliser is lost: the garbage collector rests meanwhile, and more follow.
    """
    running, collects = True, gc.isenabled()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if running:
            raise _OutOfTimeError

    former = signal.signal(signal.SIGVTALRM, stop)
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
        if collects:
            gc.enable()


def grade_expression(text: str, answer: str, timeout: float) -> str | None:
    """Label of the expression that a completion gives: the answer itself where they are equal.

    Another expression is labelled as sympy writes it. None where nothing can be parsed or
    compared in `timeout` seconds of CPU time.
    """
    try:
        with _at_most(timeout):
            return _label(text, answer)
    except _OutOfTimeError:
        return None


def _label(text: str, answer: str) -> str | None:
    # Its own timeouts count whole seconds, for each step alone.
    given = parse(text, parsing_timeout=None)
    if not given:
        return None
    if verify(_right(answer), given, timeout_seconds=None):
        return answer
    return " ".join(str(given[0]).split()) or None


@lru_cache(maxsize=4096)
def _right(answer: str) -> list[Any]:
    """Parse the right answer, as LaTeX first."""
    parsed: list[Any] = parse(f"${answer}$", parsing_timeout=None)
    return parsed or parse(answer, parsing_timeout=None)

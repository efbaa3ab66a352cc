"""Progress of a long stage, a line now and then: several jobs share one terminal and one log."""

import sys
import time

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Counts questions and tokens of one job and says how it goes.

    A bar cannot be shared by jobs, so these are lines.
    """

    def __init__(self, label: str, questions: int) -> None:
        self._label = label
        self._total = questions
        self._done = 0
        self._run = 0
        self._tokens = 0
        self._started = time.monotonic()
        self._said = self._started

    def advance(self, questions: int, tokens: int, taken_over: bool) -> None:
        """Count a finished batch group; one that the journal had says nothing about the rate."""
        self._done += questions
        if not taken_over:
            self._run += questions
            self._tokens += tokens
        now = time.monotonic()
        if now - self._said >= SECONDS_BETWEEN_LINES or self._done == self._total:
            self._said = now
            print(self._line(now - self._started), file=sys.stderr, flush=True)

    def _line(self, seconds: float) -> str:
        words = [f"{self._label}: {self._done}/{self._total} questions"]
        if self._run:
            words.append(f"{self._tokens / max(seconds, 1e-9):,.0f} tokens/s")
            left = seconds / self._run * (self._total - self._done)
            words.append(f"{tqdm.format_interval(left)} left")
        else:
            words.append("taken over from the journal")
        return " · ".join(words)

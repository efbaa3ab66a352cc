"""Shares of a job in processes of their own: what they tell, and how they end."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from refork.errors import EngineError, ReforkError
from refork.stages.processes import Tell, run_in_processes


def tell_numbers(numbers: range, tell: Tell) -> None:
    for number in numbers:
        tell(f"{number} ±")


def fail(tell: Tell) -> None:
    tell("before")
    raise ReforkError("question q1: longer than the context")


def wait_long(pids: Path, tell: Tell) -> None:
    (pids / str(os.getpid())).touch()
    tell("waiting")
    time.sleep(60)


def test_every_line_of_every_share_is_heard_in_its_order() -> None:
    heard: list[str] = []
    run_in_processes([partial(tell_numbers, range(i, 300, 3)) for i in range(3)], heard.append)
    assert sorted(heard) == sorted(f"{number} ±" for number in range(300))
    first = [int(line.split()[0]) for line in heard if int(line.split()[0]) % 3 == 0]
    assert first == sorted(first)


def test_the_first_error_ends_the_others(tmp_path: Path) -> None:
    heard: list[str] = []

    def fail_once_they_wait(tell: Tell) -> None:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        fail(tell)

    waiting = partial(wait_long, tmp_path)
    before = time.monotonic()
    with pytest.raises(EngineError, match=r"^question q1: longer than the context$"):
        run_in_processes([waiting, fail_once_they_wait, waiting], heard.append)
    assert time.monotonic() - before < 30
    assert "before" in heard
    assert not [path for path in tmp_path.iterdir() if psutil.pid_exists(int(path.name))]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os.kill(os.getpid(), 9), "was ended by SIGKILL; where memory ran out"),
        (lambda: os._exit(3), "ended with status 3"),
        (lambda: int("x"), "ended with status 1; its error is above"),
    ],
    ids=["killed", "left", "bug"],
)
def test_a_process_that_ends_early_is_an_error(
    end: Callable[[], object], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def share(tell: Tell) -> None:
        tell("here")
        end()

    heard: list[str] = []
    with pytest.raises(EngineError, match=words):
        run_in_processes([share], heard.append)
    assert heard == ["here"]
    assert ("ValueError" in capfd.readouterr().err) == ("above" in words)
    assert psutil.Process().children() == []


def test_what_stops_the_job_ends_its_processes(tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt(line)

    with pytest.raises(KeyboardInterrupt, match="waiting"):
        run_in_processes([partial(wait_long, tmp_path)] * 2, stop)
    assert psutil.Process().children() == []

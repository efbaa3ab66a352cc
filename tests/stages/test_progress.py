"""The progress lines of an engine job."""

import pytest

from refork.stages.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands until it is set."""
    now = [0.0]
    monkeypatch.setattr("refork.stages.progress.time.monotonic", lambda: now[0])
    return now


def test_a_line_now_and_then_with_rate_and_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Progress("exact shard-0000", 8)
    clock[0] = 1.0
    shown.advance(2, 100, taken_over=False)
    assert capsys.readouterr().err == ""
    clock[0] = 10.0
    shown.advance(2, 900, taken_over=False)
    line = capsys.readouterr().err
    assert line == "exact shard-0000: 4/8 questions · 100 tokens/s · 00:10 left\n"
    clock[0] = 11.0
    shown.advance(4, 100, taken_over=False)
    assert "8/8 questions" in capsys.readouterr().err


def test_what_the_journal_had_says_nothing_about_the_rate(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = Progress("refeed", 4)
    clock[0] = 6.0
    shown.advance(2, 5000, taken_over=True)
    assert capsys.readouterr().err == "refeed: 2/4 questions · taken over from the journal\n"
    clock[0] = 12.0
    shown.advance(2, 600, taken_over=False)
    assert "50 tokens/s" in capsys.readouterr().err

"""Words for people are words: what they quote commands no terminal."""

from refork.errors import ReforkError


def test_what_is_not_printed_is_written_as_its_code() -> None:
    said = str(ReforkError("question \x1b[2Jred\x00\u202e\ud800:\n  naïve “é” − 1 %"))
    assert said == "question \\x1b[2Jred\\x00\\u202e\\ud800:\n  naïve “é” − 1 %"

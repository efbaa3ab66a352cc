"""Where a completion says what its answer is."""

import re
from collections.abc import Iterator

WINDOW = 200
"""Characters of a statement that are read at most."""

_IS = (
    r"(?:\s*[\"']?\s*[:：=]|\s+[-–—](?=\s)"
    r"|\s+(?:is|was|(?:would|should|must|will)\s+be|has\s+to\s+be)\b\s*:?)"
)
_CUE = re.compile(
    rf"""
    (?:\b(?:answer|solution)(?:\s+(?:choice|option|letter|here))?(?:(?:\s+(?:to|for|of|in)\b|,)[^.:\n]{{0,80}}?)?
      |\b(?:correct|right|best|final)\s+(?:option|choice|letter|one|result)
      |\bans)
    {_IS}
    |\bans\.(?=\s)
    |^[#>\ \t]*(?:final\s+)?answer[ \t]*\n
    |\#\#\#\#
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_UNSURE = re.compile(
    r"(?:\b(?:if|whether|why|assum\w{1,4}|suppos\w{1,4}|doubt)|(?:\bnot|n['’]t)\s+(?:think|believe|say|mean|know)|\bnot\s+(?:true|the\s+case))"
    r"(?:\s+that)?(?:\s+(?:the|my|our|your))?(?:\s+(?:correct|right|best|final))?\s*$",
    re.IGNORECASE,
)
_START = re.compile(r"[\s:=\"'>→]*")


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Find what stands behind 'the answer is', 'Answer:', '####' and their like in a plain text.

    Yields the place of each statement and up to `WINDOW` characters that follow the cue. 'If the
    answer is', 'I do not think the answer is' and their like are no statements.
    """
    lowered = text.lower()
    if not any(
        word in lowered
        for word in ("ans", "solution", "####", "correct ", "right ", "best ", "final ")
    ):
        return
    for match in _CUE.finditer(text):
        place = match.start()
        if not _UNSURE.search(text, max(0, place - 60), place):
            start = _START.match(text, match.end()).end()  # type: ignore[union-attr]
            yield place, text[start : start + WINDOW]

"""Where a completion says what its answer is."""

import re
from collections.abc import Iterator

WINDOW = 500
"""Characters of a statement that are read at most."""

_IS = (
    r"(?:\s*[\"']?\s*[:：=]|\s+[-–—](?=\s)"
    r"|\s+(?:is|was|(?:would|should|must|will)\s+be|has\s+to\s+be)\b\s*:?)"
)
_WORDS = ("answer", "solution", "ans", "correct", "right", "best", "final", "####")
"""What a cue begins with: a word is found faster than a pattern."""
_CUE = re.compile(
    rf"""
    (?:\b(?:answer|solution)(?:\s+(?:choice|option|letter|here))?
        (?:(?:\s+(?:to|for|of|in)\b|,)[^.:\n]{{0,80}}?)?
      |\b(?:correct|right|best|final)\s+(?:option|choice|letter|one|result)
      |\bans(?!\w))
    {_IS}
    |\bans\.(?=\s)
    |(?<=[\n#>\ \t])answer[ \t]*\n|\Aanswer[ \t]*\n
    |\#\#\#\#
    """,
    re.VERBOSE | re.IGNORECASE,
)
_UNSURE = re.compile(
    r"(?:\b(?:if|whether|why|assum\w{1,4}|suppos\w{1,4}|doubt)"
    r"|(?:\bnot|n['’]t)\s+(?:think|believe|say|mean|know)|\bnot\s+(?:true|the\s+case))"
    r"(?:\s+that)?(?:\s+(?:the|my|our|your))?(?:\s+(?:correct|right|best|final))?\s*$",
    re.IGNORECASE,
)
_START = re.compile(r"[\s:=\"'>→]*")


def statements(text: str) -> list[tuple[int, str]]:
    """Find what stands behind 'the answer is', 'Answer:', '####' and their like in a plain text.

    Gives, in order, the place of each statement and up to `WINDOW` characters behind its cue. 'If
    the answer is', 'I do not think the answer is' and their like are no statements.
    """
    found = []
    lowered = lower(text)
    for word in _WORDS:
        for place in _places(lowered, word):
            match = _CUE.match(text, place)
            if match and not _UNSURE.search(text, max(0, place - 40), place):
                start = _START.match(text, match.end()).end()  # type: ignore[union-attr]
                found.append((place, text[start : start + WINDOW]))
    return sorted(found)


def lower(text: str) -> str:
    """Lower-case text of the same length: İ is the one letter that would become two."""
    return text.replace("İ", "I").lower()


def _places(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))

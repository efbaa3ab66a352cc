"""The choice that a completion answers: its last clear statement."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from refork.tasks.graders.statements import WINDOW, statements
from refork.tasks.letters import LETTERS
from refork.tasks.plain import plain

OUT_OF_RANGE = ""
"""A clear statement of a letter that the question does not have."""

_LEAD = re.compile(
    r"(?:(?:option|choice|letter|answer|definitely|clearly|therefore|thus|most\s+likely|probably|indeed|simply)"
    r"\b[\s:,]*|[\s\"'“‘•-]+)+",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\w|[.,][0-9]")
_ARTICLE = re.compile(r"(?:the|an?)\s+", re.IGNORECASE)
_BRACKETED = re.compile(r"[(\[{<]\s?([A-Za-z])\s?[)\]}>]|([A-Za-z])\)")
# A single letter may be an article, a pronoun or a variable where no sentence ends behind it.
_TURN = (
    r"(?=\s*(?:$|[.;:!)\]\"'”’}\n(]|[-–—]\s|,(?!\s?[a-z]\b)"
    r"|\b(?:because|since|as|for|which|with|in)\b))"
)
_BARE = re.compile(rf"([B-HJ-Z])(?!['’-]?\w)|([AIa-z]){_TURN}")
_AFTER = re.compile(r"\s*\?|\s+(?:is|was|isn['’]t|seems|cannot|can['’]t)\b")
_SHARED = r"\s*(?:,|/|&|\bor\b|\band\b)\s*(?:option\s+|choice\s+)?[(\[]?[A-{last}][)\]]?(?![\w'’])"

_VERDICT = re.compile(
    r"\s(?:is|must\s+be|has\s+to\s+be|would\s+be)\s+(?:(?:the|our|my|clearly|therefore|thus|most|only|definitely)\s+){0,3}"
    r"(?:(?:correct|right|best|accurate|appropriate)(?:\s+(?:answer|option|choice|one|letter|response))?|answer)"
    r"(?=\s*(?:[.,;:!)\n]|$|\b(?:because|since|as|for|to|here)\b))",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?:[!?;,\n]|(?<!\b[A-Za-z])\.)\s+|\n")
_CONNECTORS = re.compile(
    r"(?:(?:so|therefore|thus|hence|clearly|and|but|only|then|overall|in\s+conclusion|that|i\s+(?:think|believe)"
    r"|this\s+means|we\s+(?:can\s+)?(?:conclude|see|know))\b[\s,:]*|[\s,:]+)+",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:i|we)(?:['’](?:d|ll|m)|\s+(?:would|will|must|should|am|are|have\s+to))?\s+"
    r"(?:choose|pick|select|go(?:ing)?\s+with|chose|picked)\s+",
    re.IGNORECASE,
)
_DECIDED = ("choose", "chose", "pick", "select", "go with", "going with")
"""What a decision has in it: a word is found faster than a pattern."""
_LAST_WORD = re.compile(r"(?<![\w'’])[A-Za-z](?=[)\]]?\s*(?:[.!\n]|$))")
_CONCLUSION = re.compile(
    r"\b(?:(?:so|therefore|thus|hence|wait|no|actually|sorry|correction|conclusion)\b[\s,:.…—-]{1,4}"
    r"|(?:it['’]s|it\s+is|it\s+(?:must|has\s+to)\s+be|that\s+leaves)\s+)"
    r"(?:(?:option|choice)\s+)?[(\[]?$",
    re.IGNORECASE,
)
_OPTION_LINE = re.compile(
    r"^[ \t\-•]*(?:(?:option|choice) )?[(\[]?([a-z])[)\].:]", re.IGNORECASE | re.MULTILINE
)
_ALONE = re.compile(r"[(\[{]?\s?([A-Za-z])\s?[)\]}]?[.:]?")
_LABELLED = re.compile(r"[(\[{]?([A-Za-z])(?:[)\]}][.:]?|[.:])\s*")
_DENIED = re.compile(r"\b(?:not|wrong|incorrect|false|cannot)\b|n['’]t\b", re.IGNORECASE)


def grade_choice(text: str, choices: Sequence[str]) -> str | None:
    """Letter of the choice that a completion states last and clearly, or None.

    A statement is 'the answer is X', 'X is correct', 'I choose X', 'so, X.' or a line that is X and
    nothing else, where X is a letter or the text of a choice. Conditions, questions, doubts,
    several letters at once and remarks on single choices are none.
    """
    text = plain(text).strip()
    reader = _reader(tuple(choices))
    last = max(reader.stated(text), default=None)
    return None if last is None or last[1] == OUT_OF_RANGE else last[1]


class _Reader:
    """Reads the statements of completions to one list of choices."""

    def __init__(self, choices: Sequence[str]) -> None:
        self._letters = LETTERS[: len(choices)]
        texts = [
            (_folded(plain(choice)), letter)
            for choice, letter in zip(choices, self._letters, strict=True)
        ]
        # A single letter names a choice. The longest first: New York City before New York.
        told = [pair for pair in texts if pair[0] and not _ALONE.fullmatch(pair[0])]
        self._texts = sorted(told, key=lambda pair: -len(pair[0]))
        # White space may be wide; a statement goes on behind the text.
        self._reach = max(map(len, choices)) + 40
        self._shared = re.compile(_SHARED.format(last=self._letters[-1]))

    def stated(self, text: str) -> Iterator[tuple[int, str]]:
        """Find all clear statements: place in the text and letter."""
        found = [(place, self._choice(value)) for place, value in statements(text)]
        if any(word in text for word in _DECIDED):
            for cue in _DECISION.finditer(text):
                found.append((cue.start(), self._choice(text[cue.end() : cue.end() + WINDOW])))
        for letter in _LAST_WORD.finditer(text):
            if _CONCLUSION.search(text, max(0, letter.start() - 40), letter.start()):
                found.append((letter.start(), self._choice(letter[0])))
        for verdict in _VERDICT.finditer(text):
            found.append((verdict.start(), self._subject(text, verdict.start())))
        found += self._lines(text)
        return ((place, letter) for place, letter in found if letter is not None)

    def _choice(self, value: str) -> str | None:
        """Letter of the choice with which a text begins."""
        bare = _without(_LEAD, value)
        match = _BRACKETED.match(bare)
        if match is None:
            letter = self._text(value) or self._text(bare)
            match = _BARE.match(bare)
            if letter is not None or match is None:
                return letter
        return self._settled(match, bare)

    def _settled(self, match: re.Match[str], value: str) -> str | None:
        rest = match.end()
        if _AFTER.match(value, rest) or self._shared.match(value, rest):
            return None
        letter = (match[1] or match[2]).upper()
        return letter if letter in self._letters else OUT_OF_RANGE

    def _text(self, value: str, whole: bool = False) -> str | None:
        if whole and len(value) > self._reach:
            return None
        value = value[: self._reach]
        article = _ARTICLE.match(value)
        for start in (0, article.end() if article else 0):
            folded = _folded(value[start:])
            for text, letter in self._texts:
                rest = folded[len(text) :]
                if folded.startswith(text) and not _GOES_ON.match(rest):
                    return letter if not whole or not rest.strip(" .!\"'”’)") else None
        return None

    def _subject(self, text: str, end: int) -> str | None:
        """Letter of the choice that is the whole subject of a verdict."""
        clause = _BREAK.split(text[max(0, end - 120) : end])[-1]
        return self._line(_without(_CONNECTORS, clause))

    def _line(self, line: str) -> str | None:
        """Letter of the choice that a line is: its letter, its text, or both."""
        bare = _without(_LEAD, line)
        alone = _ALONE.fullmatch(bare)
        if alone is not None:
            letter = alone[1].upper()
            return letter if letter in self._letters else None
        labelled = _LABELLED.match(bare)
        if labelled is None:
            return self._text(line, whole=True) or self._text(bare, whole=True)
        letter = self._text(bare[labelled.end() :], whole=True)
        return letter if letter == labelled[1].upper() else None

    def _lines(self, text: str) -> list[tuple[int, str | None]]:
        """Statements that are the first or the last line; a list of the choices is none."""
        first, last = text.partition("\n")[0].strip(), text.rpartition("\n")[2].strip()
        closing = (len(text), self._line(last))
        options = {match[1].upper() for match in _OPTION_LINE.finditer(text)}
        if len(options) > 1:
            return [closing] if _ALONE.fullmatch(_without(_LEAD, last)) else []
        return [(0, self._line(first) or self._opening(first)), closing]

    def _opening(self, line: str) -> str | None:
        """Letter of the choice with whose letter and text a line begins, no denial behind them."""
        labelled = _LABELLED.match(line)
        if labelled is None or _DENIED.search(line):
            return None
        letter = self._text(line[labelled.end() :])
        return letter if letter == labelled[1].upper() else None


_reader = lru_cache(maxsize=4096)(_Reader)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip("\"'“‘. ")


def _without(beginning: re.Pattern[str], text: str) -> str:
    match = beginning.match(text)
    return text[match.end() :] if match else text

"""Untrusted text made visible: what a model or a question file may hold, and a page must not obey.

Escaping of HTML is the template engine's; here stand the characters that no escaping touches:
terminal escapes, NUL, direction overrides, invisible fillers, lone surrogates.
"""

import re
from typing import Any

from markupsafe import Markup

SHOWN_CHARACTERS = 20_000
"""So much of one text is shown; a longer one is cut, and the page says so."""
_SHOWN_OF_A_TOKEN = 200

# Line feed and tab keep their meaning; joiners (U+200C, U+200D) are needed to spell.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """Return `text` with the code of every invisible or directing character in its place."""
    return _INVISIBLE.sub(_sign, text)


def clipped(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return the beginning of a very long text, with the number of characters that are left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} […{len(text) - limit:,} more characters]"


def token_text(piece: str) -> str:
    """Return a token's text as it stands in a rollout; one that is empty or a line end is shown."""
    return clipped(piece, _SHOWN_OF_A_TOKEN).replace("\n", "↵\n") or "∅"


def token_label(piece: str) -> str:
    """Return a token's text for a table: its blanks and line ends are shown."""
    shown = clipped(piece.replace(" ", "␣").replace("\n", "↵"), _SHOWN_OF_A_TOKEN)
    return visible(shown.replace("\t", "⇥")) or "∅"


def finalize(value: Any) -> Any:
    """Make every string that a template puts out visible; markup of our own passes."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sign(match: re.Match[str]) -> str:
    return f"‹U+{ord(match.group()):04X}›"

"""Completions without their mark-up: what Markdown and LaTeX say, in plain words."""

import re
from itertools import chain

_PART = r"\{\s*([-−]?[0-9.,]+)\s*\}"
_LATEX = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:text|math)[a-z]{0,8}\s*\{([^{}]*)\}", r"\1"),
        (r"\{,\}", ","),
        (r"\\[,;:!]|\\(?:left|right|displaystyle)(?![A-Za-z])", ""),
        (r"\\(?:times|cdot)(?![A-Za-z])", "×"),
        (r"\\([$%#&_{}])", r"\1"),
        (r"\\[()\[\] ]|~", " "),
        (r"\\(?:text|math)[a-z]{0,8}\s*\{([^{}]*)\}", r"\1"),
    )
]
_FRACTIONS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=[0-9])\s*(?=\\[dt]?frac)", " "),
        (rf"\\[dt]?frac\s*{_PART}\s*{_PART}", r"\1/\2"),
        (r"\\[dt]?frac\s*([0-9])\s*([0-9])", r"\1/\2"),
    )
]
_BOXED = re.compile(r"\\f?box(?:ed)?\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_BOXED_WORD = re.compile(r"\\f?boxed\s+([A-Za-z0-9]+)")
_TAG = re.compile(r"</?(?:answer|strong|em|b|i|u|p|br)\s?/?>", re.IGNORECASE)
_STARS = re.compile(r"\*(?:\*+|(?![0-9\s(])|(?<![0-9\s)]\*))")
_RULES = re.compile(r"_(?:(?<![A-Za-z0-9_]_)_*+|(?<!__)_*+(?![A-Za-z0-9]))")
_DOLLAR = re.compile(r"\b(?:US|CA|AU|NZ|HK)(?=\$)")
_SIGNS = re.compile(r"[$€£¥₹`]")


def plain(text: str) -> str:
    r"""Take Markdown's and HTML's emphasis, LaTeX's wrappers and currency signs off a text.

    `\boxed{x}` and `<answer>x</answer>` become a line `Answer: x`: a statement like any other.
    """
    if "\\" in text:
        for pattern, replacement in chain(_LATEX, _FRACTIONS if "frac" in text else ()):
            text = pattern.sub(replacement, text)
        text = _BOXED_WORD.sub(r"\nAnswer: \1\n", _BOXED.sub(r"\nAnswer: \1\n", text))
    if "<" in text:
        text = _TAG.sub(_plain_tag, text)
    if "*" in text:
        text = _STARS.sub("", text)
    if "_" in text:
        text = _RULES.sub("", text)
    if "$" in text:
        text = _DOLLAR.sub("", text)
    return _SIGNS.sub("", text)


def _plain_tag(tag: re.Match[str]) -> str:
    name = tag[0].casefold()
    return "\nAnswer: " if name == "<answer>" else "\n" if "answer" in name else ""

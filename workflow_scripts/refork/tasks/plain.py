"""Completions without their mark-up: what Markdown and LaTeX say, in plain words."""

import re

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
        (r"(?<=[0-9])\s*(?=\\[dt]?frac)", " "),
        (rf"\\[dt]?frac\s*{_PART}\s*{_PART}", r"\1/\2"),
        (r"\\[dt]?frac\s*([0-9])\s*([0-9])", r"\1/\2"),
        (r"\\(?:text|math)[a-z]{0,8}\s*\{([^{}]*)\}", r"\1"),
    )
]
_BOXED = re.compile(r"\\f?box(?:ed)?\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_STARS = re.compile(r"\*\*+|\*+(?![0-9\s(*])|(?<![0-9\s)*])\*+")
_RULES = re.compile(r"(?<![A-Za-z0-9_])_++|(?<!_)_++(?![A-Za-z0-9])")
_CURRENCY = re.compile(r"(?:\b(?:US|CA|AU|NZ|HK))?[$€£¥₹]")


def plain(text: str) -> str:
    r"""Take Markdown's emphasis, LaTeX's wrappers and currency signs off a text.

    `\boxed{x}` becomes a line `Answer: x`, so that it is a statement like any other.
    """
    if "\\" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
        text = _BOXED.sub(r"\nAnswer: \1\n", text)
    if "*" in text:
        text = _STARS.sub("", text)
    if "_" in text:
        text = _RULES.sub("", text)
    return _CURRENCY.sub("", text).replace("`", "")

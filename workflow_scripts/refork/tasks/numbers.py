"""Numbers in plain text: how they are found, and the one label that equal numbers share."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from refork.tasks.plain import plain

LONGEST = 60
"""Characters of a number at most; what is longer is no answer to a question."""

_DIGITS = r"(?:[0-9]{1,3}(?:[,\u00a0\u2009\u202f][0-9]{3})+(?![0-9])|[0-9]+)"
_NUMBER = re.compile(
    rf"""
    (?<!\w)(?<![0-9][./])
    (?P<sign>(?<![)\]}}.])[-−–])?
    (?:
        (?:(?P<mixed>[0-9]{{1,9}})[ ])?(?P<top>{_DIGITS})[ ]?/[ ]?(?P<bottom>[0-9]+)
      | (?P<decimal>{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)
        (?:e(?P<exponent>[-+]?[0-9]{{1,2}})\b
          |[ ]?[×x*][ ]?10\^\{{?(?P<power>[-−]?[0-9]{{1,2}})\}}?)?
    )
    (?P<percent>[ ]?%|[ ]per[ ]?cent\b)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_DIGIT = str.maketrans("", "", ",\u00a0\u2009\u202f")


@dataclass(frozen=True)
class Number:
    """An exact number as written; `percent` tells that a percent sign or word stood behind it."""

    value: Fraction
    percent: bool = False

    def equals(self, other: Fraction) -> bool:
        """Whether this is the other number; 50 % is both 50 and 1/2."""
        return other == self.value or (self.percent and other * 100 == self.value)


def find_numbers(text: str) -> Iterator[Number]:
    """Find the numbers of a plain text, in order.

    A comma or a thin space is a thousands separator, the point the decimal one; fractions (`3/4`),
    mixed numbers (`2 1/2`) and powers of ten (`1.5e3`, `1.5 × 10^3`) are numbers; divisions by zero
    and numbers over `LONGEST` characters are not.
    """
    for match in _NUMBER.finditer(text):
        number = _number(match)
        if number is not None:
            yield number


def read_number(text: str) -> Fraction | None:
    """Read a text that is nothing but one number, or that ends with one behind `####`."""
    match = _NUMBER.fullmatch(plain(text.rpartition("####")[2]).strip())
    number = match and _number(match)
    return number.value if number else None


def number_label(value: Fraction) -> str:
    """Write a number in the one form that all equal numbers share: 3, -0.5, 1/3."""
    rest = value.denominator
    places = 0
    while rest % 10 == 0 or rest % 5 == 0 or rest % 2 == 0:
        rest //= 10 if rest % 10 == 0 else 5 if rest % 5 == 0 else 2
        places += 1
    if rest > 1:
        return f"{value.numerator}/{value.denominator}"
    if places == 0:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**places // value.denominator).zfill(places + 1)
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _number(match: re.Match[str]) -> Number | None:
    if match.end() - match.start() > LONGEST:
        return None
    if match["decimal"] is not None:
        power = (match["exponent"] or match["power"] or "0").replace("−", "-")
        value = Fraction(match["decimal"].translate(_NO_DIGIT)) * Fraction(10) ** int(power)
    else:
        bottom = int(match["bottom"])
        if bottom == 0:
            return None
        value = int(match["mixed"] or 0) + Fraction(int(match["top"].translate(_NO_DIGIT)), bottom)
    return Number(-value if match["sign"] else value, percent=match["percent"] is not None)

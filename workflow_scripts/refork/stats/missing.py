"""Statistics that may not exist: a number, or the reason why there is none."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Missing:
    """A statistic that does not exist, and why; never written as 0 or NaN."""

    reason: str


Quantity: TypeAlias = float | Missing


def share(part: int, whole: int, of_what: str) -> Quantity:
    """Give `part / whole`; where the whole is 0 the reason says that there is no `of_what`."""
    return part / whole if whole else Missing(f"no {of_what}")

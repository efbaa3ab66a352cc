"""Bad input is reported in full: every problem with its place, in one error."""

import difflib
from collections.abc import Iterable, Sequence

from refork.errors import ReforkError

SHOWN = 20
"""Problems written out in one error; the rest is counted."""


def raise_if_any(problems: Sequence[str]) -> None:
    """Raise one `ReforkError` that lists the problems, where there are any."""
    if not problems:
        return
    if len(problems) == 1:
        raise ReforkError(problems[0])
    lines = [f"{len(problems)} problems", *problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"… and {len(problems) - SHOWN} more")
    raise ReforkError("\n  ".join(lines))


def allowed_names(name: str, allowed: Iterable[str]) -> str:
    """Say what is allowed in place of `name`, and which of it is nearest."""
    names = list(allowed)
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    return f"allowed: {', '.join(names)}{hint}"

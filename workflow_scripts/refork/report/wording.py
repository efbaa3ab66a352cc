"""Numbers and passes in words: one spelling of each over the whole report."""

from collections.abc import Mapping
from typing import Any

MISSING = "–"
_THIN = "\N{NARROW NO-BREAK SPACE}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MINUS = "\N{MINUS SIGN}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as percent; what is not quite 0 or 100 % is never written as such."""
    if share is None:
        return MISSING
    if 0 < share < 1:
        for places in range(digits, 6):
            text = f"{100 * share:.{places}f}"
            if 0 < float(text) < 100:
                return f"{text}{_THIN}%"
    return f"{100 * share:.0f}{_THIN}%"


def count_and_rate(count: int | None, of: int | None) -> str:
    """Return a count with its rate: `215 (33.8 %)`."""
    if count is None or of is None:
        return MISSING
    return f"{whole(count)} ({percent(count / of)})" if of else f"{whole(count)} of 0"


def whole(number: int | None) -> str:
    """Return a whole number with thin spaces between thousands."""
    return MISSING if number is None else f"{number:,}".replace(",", _THIN).replace("-", _MINUS)


def decimal(number: float | None, digits: int = 2) -> str:
    """Return a number with a true minus sign."""
    if number is None:
        return MISSING
    text = f"{number:.{digits}f}"
    return text.replace("-", _MINUS if float(text) else "")


def signed(number: float | None, digits: int = 2) -> str:
    """Return a number with its sign, zero without."""
    text = decimal(number, digits)
    return f"+{text}" if number is not None and float(f"{number:.{digits}f}") > 0 else text


def small(number: float | None) -> str:
    """Return a number that may lie orders of magnitude below 1, in three significant digits."""
    if number is None:
        return MISSING
    mantissa, _, exponent = f"{number:.3g}".partition("e")
    text = mantissa.replace("-", _MINUS)
    return f"{text}·10{str(int(exponent)).translate(_RAISED)}" if exponent else text


def treatment_in_words(settings: Mapping[str, Any]) -> str:
    """Return what a treatment does, as the subject of a sentence."""
    kinds = {
        "prefill": "re-feeding the prefix",
        "decode_replay": "replaying the decode",
        "snapshot": "resuming the snapshot",
    }
    return kinds[settings["state"]] + _circumstances(settings)


def floor_in_words(settings: Mapping[str, Any]) -> str:
    """Return what a floor is, as in `already change in …`."""
    circumstances = _circumstances(settings)
    if settings["state"] == "prefill":
        return f"a re-fed pass{circumstances}"
    return f"a replica{circumstances}" if circumstances else "an identical replica"


def _circumstances(settings: Mapping[str, Any]) -> str:
    said = []
    if settings.get("order_seed") is not None:
        said.append("in another order")
    if settings.get("seed") is not None:
        said.append("with other random numbers")
    if settings.get("batch_rows") is not None:
        said.append(f"in batches of {settings['batch_rows']}")
    return "".join(f" {words}" for words in said)

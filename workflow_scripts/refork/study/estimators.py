"""Estimators of outcome curves as people name them: `full`, or `full:penalty=64:bandwidth=32`."""

import inspect
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from refork.errors import ReforkError, allowed_names
from refork.stats.curves.estimator import ESTIMATORS, Estimator

AUTO = "auto"
"""Name in the config of the best of the candidates."""
_WORDS = {"true": True, "false": False}


def named_estimator(name: str, **defaults: Any) -> Estimator:
    """Make the estimator of a name, with hyper-parameters behind colons.

    Parameters
    ----------
    name
        `NAME[:KEY=VALUE…]`; a value is a number, true, false or a word.
    defaults
        Hyper-parameters where the name gives none; those that the estimator lacks are left out.

    Raises
    ------
    ReforkError
        No estimator or no hyper-parameter has that name, or a value does not fit.
    """
    kind, *settings = name.split(":")
    if kind not in ESTIMATORS:
        raise ReforkError(f"no estimator {kind!r}; {allowed_names(kind, ESTIMATORS)}")
    known = inspect.signature(ESTIMATORS[kind]).parameters
    usual = {key: value for key, value in defaults.items() if key in known}
    given = dict(_parameter(kind, setting) for setting in settings)
    try:
        return ESTIMATORS[kind](**usual | given)
    except (ReforkError, ValueError) as error:
        raise ReforkError(f"{name}: {error}") from error


def _parameter(kind: str, setting: str) -> tuple[str, Any]:
    """Read `key=value`."""
    key, equals, value = setting.partition("=")
    known = list(inspect.signature(ESTIMATORS[kind]).parameters)
    where = f"{kind}:{setting}"
    if key not in known:
        raise ReforkError(
            f"{where}: no hyper-parameter {key!r} of {kind}; {allowed_names(key, known)}"
        )
    if not equals:
        raise ReforkError(f"{where}: a value is missing: {key}=VALUE")
    wanted = get_type_hints(ESTIMATORS[kind])[key]
    try:
        return key, TypeAdapter(wanted).validate_python(_value(value), strict=True)
    except ValidationError as error:
        faults = "; ".join(dict.fromkeys(fault["msg"] for fault in error.errors()))
        raise ReforkError(f"{where}: {value!r}: {faults}") from error


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text

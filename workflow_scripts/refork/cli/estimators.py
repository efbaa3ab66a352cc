"""Estimators as the command line names them: `full`, or `full:penalty=64:bandwidth=32`."""

import inspect
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from refork.errors import ReforkError, allowed_names
from refork.stats.curves.estimator import ESTIMATORS, Estimator

_WORDS = {"true": True, "false": False}


def named_estimators(text: str) -> dict[str, Estimator]:
    """Make the estimators of a list with commas, by the names given.

    Raises
    ------
    ReforkError
        No estimator or no hyper-parameter has that name, a value does not fit, or one is there
        twice.
    """
    estimators: dict[str, Estimator] = {}
    for name in text.split(","):
        if name in estimators:
            raise ReforkError(f"--estimators {text}: {name!r} is there twice")
        estimators[name] = _make(name)
    return estimators


def _make(name: str) -> Estimator:
    kind, *settings = name.split(":")
    if kind not in ESTIMATORS:
        known = allowed_names(kind, ESTIMATORS)
        raise ReforkError(f"--estimators: no estimator {kind!r}; {known}")
    given = dict(_parameter(kind, setting) for setting in settings)
    try:
        return ESTIMATORS[kind](**given)
    except (ReforkError, ValueError) as error:
        raise ReforkError(f"--estimators {name}: {error}") from error


def _parameter(kind: str, setting: str) -> tuple[str, Any]:
    """Read `key=value`; a value is a number, true, false or a word."""
    key, equals, value = setting.partition("=")
    known = list(inspect.signature(ESTIMATORS[kind]).parameters)
    where = f"--estimators {kind}:{setting}"
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

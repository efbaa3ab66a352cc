"""Estimators as the command line names them: `full`, or `full:penalty=64:bandwidth=32`."""

import inspect
from typing import Any

from refork.errors import ReforkError, allowed_names
from refork.stats.curves.estimator import ESTIMATORS, Estimator

_WORDS = {"true": True, "false": False}


def named_estimators(text: str) -> dict[str, Estimator]:
    """Make the estimators of a list with commas, by the names given.

    Raises
    ------
    ReforkError
        No estimator or no hyper-parameter has that name, or one is there twice.
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
    if not equals or key not in known:
        raise ReforkError(
            f"--estimators {kind}:{setting}: no hyper-parameter {key!r} of {kind} with a value; "
            f"{allowed_names(key, known)}"
        )
    if value in _WORDS:
        return key, _WORDS[value]
    for number in (int, float):
        try:
            return key, number(value)
        except ValueError:
            continue
    return key, value

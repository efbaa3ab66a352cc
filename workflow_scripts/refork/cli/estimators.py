"""Estimators as the command line lists them: `full,forkhmm:labels=false`."""

from refork.errors import ReforkError
from refork.stats.curves.estimator import Estimator
from refork.study.estimators import named_estimator


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
        try:
            estimators[name] = named_estimator(name)
        except ReforkError as error:
            raise ReforkError(f"--estimators: {error}") from error
    return estimators

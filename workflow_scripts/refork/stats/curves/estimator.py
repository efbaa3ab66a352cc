"""What an estimator of outcome curves is, and the estimators there are, by name.

An estimator takes the draws of one question and gives the outcome distribution o_t at any position.
It is a module or a package of this package that holds a class under the name `ESTIMATOR`; that is
all that makes it known.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refork.stats.curves.sample import CurveSample

Chosen: TypeAlias = Mapping[str, float | str]
"""Hyper-parameters by name."""

SELECTION, GIVEN = "selection", "given"
"""Key of `Fit.chosen` that says how they were chosen, and its value where none were."""


class Fit(Protocol):
    """Curves of one question."""

    @property
    def chosen(self) -> Chosen:
        """Hyper-parameters in use; `SELECTION` says how they were chosen where they can be."""

    @property
    def change_points(self) -> NDArray[np.int64] | None:
        """Positions at which a new segment begins, ascending; None without segments."""

    def mean(self, positions: ArrayLike) -> NDArray[np.float64]:
        """Estimate o_t [positions, categories]; every row adds to 1."""

    def sd(self, positions: ArrayLike) -> NDArray[np.float64] | None:
        """Give the standard deviation [positions, categories]; None without error bars."""


class Estimator(Protocol):
    """Fits curves to the draws of one question."""

    @property
    def name(self) -> str:
        """Name by which the estimator is chosen."""

    def fit(self, sample: CurveSample) -> Fit:
        """Fit the curves; a `ReforkError` says in words what cannot be fitted."""


class Discovered(Mapping[str, Callable[..., Estimator]]):
    """Estimators of a package by name, imported when the first of them is asked for."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def _by_name(self) -> dict[str, Callable[..., Estimator]]:
        found = {}
        path = importlib.import_module(self._package).__path__
        for module in pkgutil.iter_modules(path, f"{self._package}."):
            estimator = getattr(importlib.import_module(module.name), "ESTIMATOR", None)
            if estimator is not None:
                found[str(estimator.name)] = estimator
        return dict(sorted(found.items()))

    def __getitem__(self, name: str) -> Callable[..., Estimator]:
        """Give what makes the estimator of this name."""
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names in alphabetical order."""
        return iter(self._by_name)

    def __len__(self) -> int:
        """Count the estimators."""
        return len(self._by_name)


ESTIMATORS: Mapping[str, Callable[..., Estimator]] = Discovered(__name__.rpartition(".")[0])
"""Each makes an estimator of its hyper-parameters, which are given by keyword."""

"""Counterfactual token credit Â = mean R(actual) − mean R(alt) and its sign.

Source: arXiv 2606.15621, the credit estimator. A credit is a ratio of whole numbers,

    Â = right_actual / draws_actual − right_alt / draws_alt
      = (right_actual · draws_alt − right_alt · draws_actual) / (draws_actual · draws_alt),

so signs and thresholds are taken on the numerator, where no rounding can move them.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.integer[Any]]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Credits:
    """Credits of one pass, one a pivot.

    `numerator` and `denominator` are whole numbers; the denominator is 0 where only the floating
    credit is known.
    """

    value: Floats
    numerator: Integers
    denominator: Integers

    @cached_property
    def sign(self) -> Integers:
        """Sign of every credit in {−1, 0, 1}: the one place where it is taken."""
        return np.sign(np.where(self.denominator > 0, self.numerator, self.value)).astype(np.int8)

    def reaches(self, threshold: float) -> Mask:
        """Tell where |Â| ≥ threshold, which is read as the decimal number that it is written as."""
        written = Fraction(repr(float(threshold)))
        denominators, which = np.unique(self.denominator, return_inverse=True)
        least = np.array([ceil(written * int(one)) for one in denominators], dtype=np.int64)
        counted = np.abs(self.numerator) >= least[which]
        return np.where(self.denominator > 0, counted, np.abs(self.value) >= threshold)


def credits_from_counts(
    right_actual: Integers,
    draws_actual: Integers,
    right_alt: Integers,
    draws_alt: Integers,
    known: Floats | None = None,
) -> Credits:
    """Credits from whole counts of right outcomes and draws, each of shape (pivots,).

    Where an arm has no draws the credit is the one in `known`.

    Raises
    ------
    ValueError
        An arm has no draws and `known` is not given.
    """
    draws = np.asarray(draws_actual, dtype=np.int64), np.asarray(draws_alt, dtype=np.int64)
    numerator = right_actual * draws[1] - right_alt * draws[0]
    denominator = draws[0] * draws[1]
    counted = denominator > 0
    if known is None:
        if not counted.all():
            raise ValueError("a credit needs draws of both arms")
        return Credits(numerator / denominator, numerator, denominator)
    value = np.where(counted, numerator / np.where(counted, denominator, 1), known)
    return Credits(value, numerator, denominator)


def eligible(reference: Integers, floor: Integers, treatment: Integers) -> Mask:
    """Take the common set: pivots whose sign is not 0 in at least one of the three passes."""
    common: Mask = (reference != 0) | (floor != 0) | (treatment != 0)
    return common

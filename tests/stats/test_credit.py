"""Credits, their signs and the common set."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refork.stats.credit import Credits, credits_from_counts, eligible

counts = st.integers(1, 40).flatmap(lambda draws: st.tuples(st.integers(0, draws), st.just(draws)))


def credit(actual: tuple[int, int], alt: tuple[int, int]) -> Credits:
    return credits_from_counts(*(np.array([number]) for number in (*actual, *alt)))


def test_a_credit_is_the_difference_of_two_shares() -> None:
    credits = credits_from_counts(
        np.array([4, 1, 2]), np.array([4, 4, 4]), np.array([1, 3, 2]), np.array([4, 4, 4])
    )
    assert credits.value.tolist() == [0.75, -0.5, 0.0]
    assert credits.sign.tolist() == [1, -1, 0]


@given(counts, counts)
def test_sign_is_that_of_the_exact_fraction(actual: tuple[int, int], alt: tuple[int, int]) -> None:
    exact = Fraction(*actual) - Fraction(*alt)
    measured = credit(actual, alt)
    assert measured.sign[0] == (exact > 0) - (exact < 0)
    assert measured.value[0] == float(exact)


@given(counts, counts, st.integers(1, 100))
def test_threshold_is_the_decimal_that_is_written(
    actual: tuple[int, int], alt: tuple[int, int], percent: int
) -> None:
    exact = abs(Fraction(*actual) - Fraction(*alt))
    assert credit(actual, alt).reaches(percent / 100)[0] == (exact >= Fraction(percent, 100))


def test_equal_counts_of_unequal_draws_have_no_sign() -> None:
    # 3/10 − 6/20 is 0, though floating point may say otherwise of such differences.
    assert credit((3, 10), (6, 20)).sign[0] == 0


def test_swapping_arms_negates() -> None:
    one, other = credit((3, 4), (1, 4)), credit((1, 4), (3, 4))
    assert one.value[0] == -other.value[0]
    assert one.sign[0] == -other.sign[0]


def test_floating_credits_where_no_counts_are_known() -> None:
    zeros = np.zeros(3, dtype=np.int64)
    mixed = credits_from_counts(
        np.array([1, 0, 0]),
        np.array([2, 0, 0]),
        zeros,
        np.array([2, 0, 0]),
        known=np.array([9.0, -0.5, 0]),
    )
    assert mixed.value.tolist() == [0.5, -0.5, 0.0]
    assert mixed.sign.tolist() == [1, -1, 0]
    assert mixed.reaches(0.5).tolist() == [True, True, False]
    values = credits_from_counts(zeros, zeros, zeros, zeros, known=np.array([0.75, -0.75, 0.1]))
    assert values.sign.tolist() == [1, -1, 1]
    assert values.reaches(0.75).tolist() == [True, True, False]


def test_a_credit_needs_draws() -> None:
    with pytest.raises(ValueError, match="draws of both arms"):
        credit((0, 0), (1, 2))


def test_eligible_where_any_of_three_passes_has_a_credit() -> None:
    signs = np.array([[0, 0, 0], [1, 0, 0], [0, -1, 0], [0, 0, 1]], dtype=np.int8).T
    assert eligible(*signs).tolist() == [False, True, True, True]

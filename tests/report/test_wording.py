"""Numbers in words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refork.report import wording


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.3380503, "33.8 %"),
        (0.9999, "99.99 %"),
        (0.0001, "0.01 %"),
        (0.07, "7.0 %"),
    ],
)
def test_a_share_is_never_rounded_to_none_or_all(share: float | None, text: str) -> None:
    assert wording.percent(share).replace("\u202f", " ") == text


@given(st.floats(0, 1), st.integers(0, 2))
def test_only_0_and_100_percent_are_written_so(share: float, digits: int) -> None:
    shown = wording.percent(share, digits)
    if 1e-7 < share < 1 - 1e-7:
        assert 0 < float(shown.rstrip("\u202f%")) < 100


@pytest.mark.parametrize(
    ("count", "of", "text"),
    [(215, 636, "215 (33.8 %)"), (0, 5, "0 (0 %)"), (0, 0, "0 of 0"), (None, 3, "–")],
)
def test_count_and_rate(count: int | None, of: int, text: str) -> None:
    assert wording.count_and_rate(count, of).replace("\u202f", " ") == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.25, "+0.25"),
        (-0.5, "−0.50"),
        (0.0, "0.00"),
        (-0.001, "0.00"),
        (0.001, "0.00"),
        (None, "–"),
    ],
)
def test_a_number_bears_its_sign_and_zero_none(number: float | None, text: str) -> None:
    assert wording.signed(number) == text


@given(st.floats(-1e6, 1e6))
def test_decimals_can_be_read_back(number: float) -> None:
    assert math.isclose(float(wording.decimal(number).replace("−", "-")), number, abs_tol=0.0051)


@pytest.mark.parametrize(
    ("number", "text"), [(0.031, "0.031"), (0.0000123, "1.23·10⁻⁵"), (0, "0"), (None, "–")]
)
def test_a_small_number_keeps_three_digits(number: float | None, text: str) -> None:
    assert wording.small(number) == text


def test_passes_are_described_by_what_they_do() -> None:
    assert wording.treatment_in_words({"state": "prefill"}) == "re-feeding the prefix"
    assert wording.floor_in_words({"state": "snapshot"}) == "an identical replica"
    shuffled = {"state": "snapshot", "order_seed": 0, "batch_rows": 8}
    assert wording.floor_in_words(shuffled) == "a replica in another order in batches of 8"
    assert wording.floor_in_words({"state": "prefill", "seed": 1}) == (
        "a re-fed pass with other random numbers"
    )

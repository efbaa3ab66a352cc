"""Untrusted text is made visible."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from refork.report.visible import SHOWN_CHARACTERS, clipped, finalize, token_label, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[31m", "‹U+001B›[31m"),
        ("\x00", "‹U+0000›"),
        ("a\u202eb\u2066c", "a‹U+202E›b‹U+2066›c"),
        ("\ud800", "‹U+D800›"),
        ("\U000e0041", "‹U+E0041›"),
        ("می\u200cخواهم 👩\u200d🔬", "می\u200cخواهم 👩\u200d🔬"),
    ],
)
def test_invisible_characters_show_their_code(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_what_is_shown_holds_no_control_and_can_be_written(text: str) -> None:
    shown = visible(text)
    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cs")} - {"\n", "\t"}
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    )
    assert shown.encode().decode() == shown
    assert visible(shown) == shown


def test_a_long_text_is_cut_and_the_rest_is_counted() -> None:
    text = clipped("x" * 1_000_000)
    assert len(text) < SHOWN_CHARACTERS + 50
    assert text.endswith("[…980,000 more characters]")
    assert clipped("short") == "short"


def test_blanks_of_a_token_are_shown() -> None:
    assert token_label(" a\n") == "␣a↵"
    assert token_label("") == "∅"


def test_our_own_markup_is_not_touched() -> None:
    markup = Markup("<b>\u202e</b>")
    assert finalize(markup) is markup
    assert finalize("\u202e") == "‹U+202E›"
    assert finalize(3) == 3

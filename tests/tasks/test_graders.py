"""Graders: what holds for every text, and what the settings do."""

import gc
import itertools
import time
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refork.errors import ReforkError
from refork.tasks.graders import OTHER, GradingSettings, expression, grade
from refork.tasks.graders.choice import grade_choice
from refork.tasks.graders.number import grade_number
from refork.tasks.letters import LETTERS
from refork.tasks.numbers import number_label, read_number
from refork.tasks.plain import plain
from refork.tasks.questions import Question

CHOICES = ("milk", "bread", "honey")
BEES = Question("bees", "choice", "What do bees make?", "C", CHOICES)
SUM = Question("sum", "number", "What is 5 + 7?", "12")
WHO = Question("who", "text", "Who wrote the first program?", "Ada Lovelace")
ROOT = Question("root", "expression", "What is the root of 8?", "2\\sqrt{2}")
FRAGMENTS = st.lists(
    st.sampled_from(
        ["the answer is", "Answer:", "option", "A", "(B)", "c", "honey", "is correct", "=",
         "\\boxed{", "}", "\\frac{1}{", "1,234", "50%", "-", "*", "_", "$", "\n", " ", ".", ",",
         "<think>", "</think>", "so", "####", "I choose", "\u00a0", "İ", "²", "9"]
    ),
    max_size=60,
).map("".join)  # fmt: skip
FRACTIONS = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=10**6)


@given(st.one_of(st.text(), FRAGMENTS))
@example("\\boxed{" * 50)
def test_any_text_has_an_outcome(text: str) -> None:
    assert grade(text, BEES, GradingSettings()) in {*"ABC", OTHER}
    outcome = grade(text, SUM, GradingSettings())
    assert outcome == OTHER or number_label(Fraction(outcome)) == outcome


@given(FRACTIONS)
def test_a_label_reads_as_its_number(value: Fraction) -> None:
    label = number_label(value)
    assert Fraction(label) == value
    assert read_number(label) == value
    assert grade_number(f"It is clear. Answer: {label}\n", "0.125") == label


@given(st.integers(-(10**12), 10**12), st.integers(0, 4))
def test_all_ways_to_write_a_number_share_its_label(value: int, places: int) -> None:
    scaled = Fraction(value, 10**places)
    label = number_label(scaled)
    grouped = f"{value / 10**places:,.{places}f}" if abs(value) < 10**11 else label
    for text in (f"{grouped}", f"\\boxed{{{grouped}}}", f"${grouped}$", f"so **{grouped}** coins."):
        assert grade_number(text, "1") == label
    assert grade_number(f"The answer is {value}/{10**places}.", "1") == label


@given(st.integers(2, 26), st.data())
def test_every_letter_is_found(count: int, data: st.DataObject) -> None:
    letter = data.draw(st.sampled_from(LETTERS[:count]))
    choices = [f"choice number {number}" for number in range(count)]
    for text in (
        f"The answer is ({letter})",
        f"Answer: {letter.lower()})",
        f"\\boxed{{\\text{{{letter}}}}}",
        f"The answer is {choices[LETTERS.index(letter)]}.",
        letter,
    ):
        assert grade_choice(text, choices) == letter


@pytest.mark.parametrize("first", "ABC")
@pytest.mark.parametrize("last", "ABC")
def test_the_last_statement_wins(first: str, last: str) -> None:
    forms = [
        "The answer is {}.",
        "Answer: **{}**",
        "I choose {}.",
        "({}) is correct.",
        "\\boxed{{{}}}",
    ]
    for early, late in itertools.product(forms, repeat=2):
        text = f"{early.format(first)} Let me think again. {late.format(last)}"
        assert grade_choice(text, CHOICES) == last


@pytest.mark.parametrize(
    "fragment",
    ["\\boxed{", "{", "}", " ", "\n", "_", "a_", "*", "9", "9,999,", "1/", "answer to ", "(",
     "so ", "$", "the answer is ", "\\frac{1}{", "#", "is the ", "option ", "<", "\t- ", "1.",
     "-", "\\text{", "A) ", "answer is A or "],
)  # fmt: skip
def test_time_is_linear_in_the_text(fragment: str) -> None:
    text = fragment * (40_000 // len(fragment))
    start = time.process_time()
    grade_choice(text, CHOICES)
    grade_number(text, "1")
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("question", "pattern", "text", "outcome"),
    [
        (WHO, r"by ([\w ]+)\.", "It was by Ada  Lovelace.", "Ada Lovelace"),
        (WHO, r"by ([\w ]+)\.", "by Babbage. No, by Ada Lovelace.", "Ada Lovelace"),
        (WHO, r"by ([\w ]+)\.", "I do not know.", OTHER),
        (SUM, r"=> *(\S+)", "5 + 7 => 12.0", "12"),
        (SUM, r"=> *(\S+)", "5 + 7 => twelve", OTHER),
        (BEES, r"=> *(\S+)", "=> c", "C"),
        (BEES, r"=> *(\S+)", "=> honey", "C"),
        (ROOT, r"=> *(\S+)", "=> \\sqrt{8}", "2\\sqrt{2}"),
        (WHO, r"a(x)?", "a", OTHER),
    ],
)
def test_a_pattern_finds_the_outcome_of_each_kind(
    question: Question, pattern: str, text: str, outcome: str
) -> None:
    settings = GradingSettings(grader="pattern", pattern=pattern)
    assert grade(text, question, settings) == outcome


def test_a_pattern_that_backtracks_is_stopped_and_named() -> None:
    settings = GradingSettings(pattern=r"((?:a|aa)+)!", timeout=0.2)
    start = time.monotonic()
    with pytest.raises(ReforkError, match=r"question who: grading\.pattern: .* took over 0\.2 s"):
        grade("a" * 60 + "?", WHO, settings)
    assert time.monotonic() - start < 5


def test_an_expression_that_takes_too_long_is_other() -> None:
    start = time.process_time()
    assert grade("\\boxed{9^{9^{9^{9}}}}", ROOT, GradingSettings(timeout=0.3)) == OTHER
    assert time.process_time() - start < 10


def test_a_stop_that_is_lost_comes_again() -> None:
    with pytest.raises(expression._OutOfTimeError), expression._at_most(0.02):
        assert not gc.isenabled()
        with suppress(expression._OutOfTimeError):
            _spin()
        _spin()
    assert gc.isenabled()


def _spin() -> None:
    end = time.process_time() + 5
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("question", "settings", "words"),
    [
        (
            SUM,
            GradingSettings(grader="numbr"),
            "allowed: kind, choice, number, .*did you mean 'number'",
        ),
        (
            SUM,
            GradingSettings(grader="choice"),
            "cannot grade question sum, which is of kind 'number'",
        ),
        (BEES, GradingSettings(grader="number"), "cannot grade question bees"),
        (WHO, GradingSettings(), "null, but question who is graded by a pattern"),
        (WHO, GradingSettings(pattern="("), r"question who: grading\.pattern"),
        (WHO, GradingSettings(pattern="a"), "has no group"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    question: Question, settings: GradingSettings, words: str
) -> None:
    with pytest.raises(ReforkError, match=words):
        grade("a", question, settings)


def test_other_marks_of_thinking() -> None:
    settings = GradingSettings(think_end="[/THINK]")
    assert grade("[THINK]The answer is A.[/THINK]C", BEES, settings) == "C"
    assert grade("[THINK]The answer is A.", BEES, settings) == OTHER
    assert grade("</think>C", BEES, GradingSettings(think_end="")) == OTHER


def test_plain_text_stays_as_it_is() -> None:
    text = "Two words, a snake_case name, 2 * 3 = 6, and (a) bracket."
    assert plain(text) == text

"""Arithmetic word problems: right answers, all different, the same for ever."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refork.errors import ReforkError
from refork.tasks.arithmetic import MOST, generate, make_problem, worked_examples
from refork.tasks.arithmetic_templates import EXAMPLE_TEMPLATES, NAMES, TEMPLATES, THINGS
from refork.tasks.graders.number import grade_number

KINDS = {template.kind: template for template in (*TEMPLATES, *EXAMPLE_TEMPLATES)}
# What each kind asks, worked out from the numbers of its text in the order in which they stand.
ANSWERS: dict[str, Callable[..., float]] = {
    "buying": lambda count, price: count * price,
    "giving": lambda had, gave: had - gave,
    "change": lambda coins, count, price: coins - count * price,
    "sharing": lambda things, friends: things / friends,
    "age": lambda age, older: age + older,
    "boxes": lambda held, boxes, more: held * boxes + more,
    "walking": lambda speed, hours: speed * hours,
    "finding": lambda had, found: had + found,
    "rows": lambda rows, each: rows * each,
    "shopping": lambda count, price, other, cost: count * price + other * cost,
    "driving": lambda speed, way: way / speed,
    "comparing": lambda one, other: one - other,
    "later": lambda age, older, years: age + older + years,
    "parts": lambda length, parts: length / parts,
    "rest": lambda had, lost, friends: (had - lost) / friends,
    "wages": lambda wage, days, count, price: wage * days - count * price,
    "bags": lambda held, bags: held * bags,
    "losing": lambda had, lost: had - lost,
    "selling": lambda had, sold, made: had - sold + made,
}
seeds = st.integers(-(2**40), 2**40)


def numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def kind_of(question_id: str) -> str:
    return question_id.rpartition("-")[0]


def test_there_are_many_kinds_from_one_step_to_three() -> None:
    assert set(ANSWERS) == set(KINDS)
    assert len(TEMPLATES) >= 8
    assert {len(template.steps) for template in TEMPLATES} == {1, 2, 3}


@given(seeds)
def test_answers_are_right(seed: int) -> None:
    for question in generate(48, seed):
        right = ANSWERS[kind_of(question.question_id)](*numbers(question.question))
        assert question.kind == "number"
        assert float(question.answer) == right
        assert 1 <= right <= 60


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_a_worked_problem_calculates_right_and_ends_with_its_answer(kind: str, seed: int) -> None:
    problem = make_problem(KINDS[kind], str(seed))
    assert problem.answer == ANSWERS[kind](*numbers(problem.text))
    thought, answer = problem.worked.splitlines()
    equations = re.findall(r"(\d+) ([-+x/]) (\d+) = (\d+)", thought)
    assert len(equations) == len(KINDS[kind].steps)
    for left, sign, right, result in equations:
        operation = {"-": "__sub__", "+": "__add__", "x": "__mul__", "/": "__truediv__"}[sign]
        assert getattr(int(left), operation)(int(right)) == int(result)
    assert answer == f"Answer: {problem.answer}"
    assert grade_number(problem.worked, str(problem.answer)) == str(problem.answer)


@given(seeds)
def test_a_text_has_no_gap_and_no_person_twice(seed: int) -> None:
    for template in KINDS.values():
        problem = make_problem(template, str(seed))
        assert not re.search(r"[{}]|\s\s", problem.text)
        assert problem.words["name"] != problem.words["other"]
        assert problem.words["things"] != problem.words["others"]


def test_as_many_as_are_allowed_differ_in_text_and_id() -> None:
    questions = generate(MOST, 3)
    assert len(questions) == MOST
    assert len({question.question for question in questions}) == MOST
    assert len({question.question_id for question in questions}) == MOST


@pytest.mark.parametrize("number", [0, -1, MOST + 1])
def test_another_number_of_questions_is_refused(number: int) -> None:
    with pytest.raises(ReforkError, match=f"^{number} questions: allowed are 1 to {MOST}$"):
        generate(number, 0)


@given(seeds, st.integers(1, 60), st.integers(1, 60))
def test_more_questions_of_a_seed_begin_with_the_same(seed: int, one: int, other: int) -> None:
    few, many = sorted([one, other])
    assert generate(many, seed)[:few] == generate(few, seed)


def test_another_seed_asks_other_questions() -> None:
    texts = [{question.question for question in generate(48, seed)} for seed in range(4)]
    assert all(len(one & other) < 5 for one, other in pairwise(texts))


def test_kinds_come_in_turn() -> None:
    kinds = [kind_of(question.question_id) for question in generate(3 * len(TEMPLATES), 0)]
    assert kinds == 3 * [template.kind for template in TEMPLATES]


def test_names_and_things_vary() -> None:
    texts = " ".join(question.question for question in generate(400, 0))
    assert all(re.search(rf"\b{word}\b", texts) for word in (*NAMES, *THINGS))


@given(seeds)
def test_no_question_is_a_worked_example(seed: int) -> None:
    shown = {example.question for example in worked_examples(seed)}
    assert len(shown) == len(EXAMPLE_TEMPLATES)
    assert not shown & {question.question for question in generate(64, seed)}

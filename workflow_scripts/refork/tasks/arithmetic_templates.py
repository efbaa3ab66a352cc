"""The templates of the arithmetic word problems, from one step to three."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NAMES = (
    *("Ada", "Ali", "Amy", "Anna", "Ben", "Carl", "Dan", "Emma", "Eva", "Finn", "Grace", "Hana"),
    *("Ivan", "Jane", "Jon", "Kim", "Leo", "Lucy", "Max", "Mia", "Nina", "Noah", "Omar", "Rosa"),
)
THINGS = (
    *("apples", "balls", "books", "cakes", "cards", "cups", "eggs", "hats", "keys", "nuts"),
    *("pens", "plums", "rings", "shells", "stamps", "stones"),
)
OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "x": operator.mul,
    "/": operator.floordiv,  # of multiples only
}


@dataclass(frozen=True)
class Step:
    """One operation: `result = left sign right`, all three names of slots or of earlier results."""

    result: str
    left: str
    sign: str
    right: str


@dataclass(frozen=True)
class Template:
    """One kind of word problem.

    `text` has the slots {name}, {other}, {things}, {others} and those of the numbers: in `ranges`
    the smallest and the largest that is drawn, in `derived` what follows from these (so that a
    division leaves no rest). `steps` lead to the answer, which `conclusion` says in words.
    """

    kind: str
    text: str
    ranges: Mapping[str, tuple[int, int]]
    steps: tuple[Step, ...]
    derived: tuple[Step, ...] = field(default=())
    conclusion: str = "the answer is {answer}"


TEMPLATES = (
    Template(
        "buying",
        "{name} buys {a} {things} for {b} coins each. How many coins does {name} pay?",
        {"a": (2, 5), "b": (2, 6)},
        (Step("answer", "a", "x", "b"),),
    ),
    Template(
        "giving",
        "{name} had {a} {things} and gave {b} to {other}. How many {things} does {name} have now?",
        {"a": (6, 12), "b": (2, 5)},
        (Step("answer", "a", "-", "b"),),
    ),
    Template(
        "change",
        "{name} has {a} coins and buys {b} {things} for {c} coins each."
        " How many coins does {name} have now?",
        {"a": (13, 20), "b": (2, 3), "c": (2, 4)},
        (Step("cost", "b", "x", "c"), Step("answer", "a", "-", "cost")),
    ),
    Template(
        "sharing",
        "{name} shares {total} {things} equally among {a} friends."
        " How many {things} does each friend get?",
        {"a": (2, 4), "b": (2, 5)},
        (Step("answer", "total", "/", "a"),),
        derived=(Step("total", "a", "x", "b"),),
    ),
    Template(
        "age",
        "{name} is {a} years old. {other} is {b} years older than {name}. How old is {other}?",
        {"a": (5, 12), "b": (2, 5)},
        (Step("answer", "a", "+", "b"),),
    ),
    Template(
        "boxes",
        "A box holds {a} {things}. {name} has {b} full boxes and {c} more {things}."
        " How many {things} does {name} have?",
        {"a": (2, 5), "b": (2, 3), "c": (2, 4)},
        (Step("boxed", "b", "x", "a"), Step("answer", "boxed", "+", "c")),
    ),
    Template(
        "walking",
        "{name} walks {a} km an hour. How many km does {name} walk in {b} hours?",
        {"a": (3, 8), "b": (2, 6)},
        (Step("answer", "b", "x", "a"),),
    ),
    Template(
        "finding",
        "{name} has {a} {things} and finds {b} more. How many {things} does {name} have now?",
        {"a": (4, 12), "b": (2, 6)},
        (Step("answer", "a", "+", "b"),),
    ),
    Template(
        "rows",
        "{name} lays {things} in {a} rows, with {b} {things} in each row."
        " How many {things} are there?",
        {"a": (2, 5), "b": (2, 6)},
        (Step("answer", "a", "x", "b"),),
    ),
    Template(
        "shopping",
        "{name} buys {a} {things} for {b} coins each and {c} {others} for {d} coins each."
        " How many coins does {name} pay in all?",
        {"a": (2, 3), "b": (2, 4), "c": (2, 3), "d": (2, 4)},
        (
            Step("first", "a", "x", "b"),
            Step("second", "c", "x", "d"),
            Step("answer", "first", "+", "second"),
        ),
    ),
    Template(
        "driving",
        "{name} drives {a} km an hour. How many hours does {name} need for {way} km?",
        {"a": (10, 50), "b": (2, 5)},
        (Step("answer", "way", "/", "a"),),
        derived=(Step("way", "a", "x", "b"),),
    ),
    Template(
        "comparing",
        "{name} has {a} {things} and {other} has {b}."
        " How many more {things} does {name} have than {other}?",
        {"a": (8, 14), "b": (2, 6)},
        (Step("answer", "a", "-", "b"),),
    ),
    Template(
        "later",
        "{name} is {a} years old. {other} is {b} years older."
        " How old will {other} be in {c} years?",
        {"a": (5, 10), "b": (2, 4), "c": (2, 4)},
        (Step("now", "a", "+", "b"), Step("answer", "now", "+", "c")),
    ),
    Template(
        "parts",
        "{name} cuts a rope of {total} m into {a} equal parts. How many m long is each part?",
        {"a": (2, 5), "b": (2, 10)},
        (Step("answer", "total", "/", "a"),),
        derived=(Step("total", "a", "x", "b"),),
    ),
    Template(
        "rest",
        "{name} had {total} {things}, lost {c} and shared the rest equally among {a} friends."
        " How many {things} did each friend get?",
        {"a": (2, 3), "b": (2, 5), "c": (2, 4)},
        (Step("left", "total", "-", "c"), Step("answer", "left", "/", "a")),
        derived=(Step("shared", "a", "x", "b"), Step("total", "shared", "+", "c")),
    ),
    Template(
        "wages",
        "{name} earns {a} coins a day. After {b} days {name} buys {c} {things} for {d} coins each."
        " How many coins does {name} have now?",
        {"a": (6, 10), "b": (2, 3), "c": (2, 3), "d": (2, 3)},
        (
            Step("earned", "a", "x", "b"),
            Step("cost", "c", "x", "d"),
            Step("answer", "earned", "-", "cost"),
        ),
    ),
)
"""Kinds of questions, easy and hard ones in turn."""

EXAMPLE_TEMPLATES = (
    Template(
        "bags",
        "A bag has {a} {things}. How many {things} are in {b} bags?",
        {"a": (2, 6), "b": (2, 4)},
        (Step("answer", "b", "x", "a"),),
        conclusion="there are {answer} {things}",
    ),
    Template(
        "losing",
        "{name} had {a} coins and lost {b}. How many coins does {name} have now?",
        {"a": (8, 15), "b": (2, 6)},
        (Step("answer", "a", "-", "b"),),
        conclusion="{name} has {answer} coins",
    ),
    Template(
        "selling",
        "{name} had {a} {things}, sold {b} and then made {c} new ones."
        " How many {things} does {name} have now?",
        {"a": (9, 15), "b": (2, 7), "c": (2, 7)},
        (Step("left", "a", "-", "b"), Step("answer", "left", "+", "c")),
        conclusion="{name} has {answer} {things}",
    ),
)
"""Kinds of worked examples; no question is of these."""

"""From a completion to its outcome: a label, `other` or `truncated`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from refork.errors import ReforkError, allowed_names
from refork.tasks.graders.choice import grade_choice
from refork.tasks.graders.number import grade_number
from refork.tasks.graders.thinking import without_thinking
from refork.tasks.numbers import number_label, read_number
from refork.tasks.questions import OTHER, TRUNCATED, Question


@dataclass(frozen=True)
class GradingSettings:
    """Config section `grading`; `timeout` in seconds a completion."""

    grader: str = "kind"
    pattern: str | None = None
    think_end: str = "</think>"
    timeout: float = 2.0


def grade(
    text: str,
    question: Question,
    settings: GradingSettings,
    *,
    finish_reason: str = "stop",
    opened: bool = False,
) -> str:
    """Outcome of one whole completion.

    The outcome of a choice question is the letter in the order that this rollout showed; the right
    outcome is `question.answer`.

    Parameters
    ----------
    text
        Everything generated behind the prompt.
    finish_reason
        `length` where the token limit cut it: the outcome is `truncated`.
    opened
        The prompt itself opened a think part.

    Raises
    ------
    ReforkError
        The grader does not fit the question, or the user's pattern is no good or too slow.
    """
    grader = grader_of(settings, question)
    if finish_reason == "length":
        return TRUNCATED
    answer = without_thinking(text, settings.think_end, opened)
    if answer is None:
        return OTHER
    return grader(answer, question, settings) or OTHER


def _choice(text: str, question: Question, settings: GradingSettings) -> str | None:
    return grade_choice(text, question.choices or ())


def _number(text: str, question: Question, settings: GradingSettings) -> str | None:
    return grade_number(text, question.answer)


def _expression(text: str, question: Question, settings: GradingSettings) -> str | None:
    # sympy takes a while to import, and only this grader needs it.
    from refork.tasks.graders.expression import grade_expression  # noqa: PLC0415

    return grade_expression(text, question.answer, settings.timeout)


def _pattern(text: str, question: Question, settings: GradingSettings) -> str | None:
    """Put what the pattern's first group caught in the form of the kind's labels."""
    # Only in environments that grade; the engines' lack `regex`.
    from refork.tasks.graders.pattern import last_group  # noqa: PLC0415

    try:
        caught = last_group(text, settings.pattern or "", settings.timeout)
    except ReforkError as error:
        raise ReforkError(f"question {question.question_id}: {error}") from error
    if caught is None or question.kind == "expression":
        return caught and _expression(f"${caught}$", question, settings)
    if question.kind == "choice":
        return grade_choice(caught, question.choices or ())
    if question.kind == "number":
        value = read_number(caught)
        return None if value is None else number_label(value)
    return " ".join(caught.split())


Grader = Callable[[str, Question, GradingSettings], str | None]
GRADERS: Mapping[str, tuple[Grader, frozenset[str]]] = {
    "choice": (_choice, frozenset({"choice"})),
    "number": (_number, frozenset({"number"})),
    "expression": (_expression, frozenset({"expression", "number"})),
    "pattern": (_pattern, frozenset({"choice", "number", "expression", "text"})),
}
"""Each grader with the kinds of question that it can grade."""


def grader_of(settings: GradingSettings, question: Question) -> Grader:
    """Return the grader of a question.

    Raises
    ------
    ReforkError
        There is none of that name, or it does not fit the question.
    """
    name = settings.grader
    if name == "kind":
        name = "pattern" if question.kind == "text" else question.kind
    if name not in GRADERS:
        raise ReforkError(f"grading.grader: {name!r}; {allowed_names(name, ['kind', *GRADERS])}")
    grader, kinds = GRADERS[name]
    if question.kind not in kinds:
        raise ReforkError(
            f"grading.grader: {name!r} cannot grade question {question.question_id}, which is"
            f" of kind {question.kind!r}; it grades {', '.join(sorted(kinds))}"
        )
    if name == "pattern" and settings.pattern is None:
        raise ReforkError(
            f"grading.pattern: null, but question {question.question_id} is graded by a pattern"
        )
    return grader

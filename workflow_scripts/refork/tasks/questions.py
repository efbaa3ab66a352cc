"""Questions: read from a file or a dataset, checked, and made alike."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from refork.errors import ReforkError, allowed_names, raise_if_any
from refork.tasks.choices import BadFieldError, Choices, answer_letter, read_choices
from refork.tasks.numbers import number_label, read_number
from refork.tasks.rows import read_rows
from refork.tasks.source import QuestionSource, SourceRow

KINDS = ("choice", "number", "expression", "text")
OTHER = "other"
"""The outcome of a completion that states no answer."""
TRUNCATED = "truncated"
"""The outcome of a completion that the token limit cut, whatever it said until then."""
FIELDS = ("id", "kind", "question", "choices", "answer")


@dataclass(frozen=True)
class Question:
    """One question.

    `answer` is the label of the right outcome: a letter for a choice, `number_label` for a number,
    the source's own text for an expression or a text. `where` is its place in the source.
    """

    question_id: str
    kind: str
    question: str
    answer: str
    choices: tuple[str, ...] | None = None
    where: str = field(default="", compare=False)


def load_questions(source: QuestionSource) -> list[Question]:
    """Load, check and convert the questions of a source, in its order.

    Raises
    ------
    ReforkError
        Everything that is wrong with the source, each fault with its file, line and key.
    """
    unknown = [name for name in source.columns if name not in FIELDS]
    raise_if_any([f"questions.columns.{name}: {allowed_names(name, FIELDS)}" for name in unknown])
    faults: list[str] = []
    rows = read_rows(source, faults)
    has_ids = "id" in source.columns or any("id" in row.fields for row in rows)
    questions = []
    first_at: dict[str, str] = {}
    for row in rows:
        question = _Reader(row, source.columns, faults).question(has_ids)
        if question is None:
            continue
        if question.question_id in first_at:
            faults.append(
                f"{row.where}: id: {question.question_id!r} stands already at"
                f" {first_at[question.question_id]}"
            )
        first_at.setdefault(question.question_id, row.where)
        questions.append(question)
    raise_if_any(faults)
    if not questions:
        raise ReforkError(f"{source.file or source.dataset}: no questions")
    return questions


def questions_digest(questions: Iterable[Question]) -> str:
    """SHA-256, in hex, of canonical JSON of the questions; where they stand does not count."""
    records = [
        {name: value for name, value in asdict(question).items() if name != "where"}
        for question in questions
    ]
    canonical = json.dumps(records, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class _Reader:
    """Makes a question of a row; what is wrong goes into `faults`, with place and key."""

    def __init__(self, row: SourceRow, columns: Mapping[str, str], faults: list[str]) -> None:
        self._row = row
        self._columns = columns
        self._faults = faults

    def question(self, has_ids: bool) -> Question | None:
        before = len(self._faults)
        question_id = self._id() if has_ids else str(self._row.number)
        question = self._text("question")
        choices = self._choices()
        kind = self._kind()
        answer = self._answer(kind, choices)
        if len(self._faults) > before or not (question_id and question and kind and answer):
            return None
        texts = choices.texts if choices and kind == "choice" else None
        return Question(question_id, kind, question, answer, texts, self._row.where)

    def _column(self, name: str) -> str:
        return self._columns.get(name, name)

    def _value(self, name: str) -> Any:
        return self._row.fields.get(self._column(name))

    def _fault(self, name: str, words: str) -> None:
        self._faults.append(f"{self._row.where}: {self._column(name)}: {words}")

    def _missing(self, name: str) -> None:
        if self._column(name) in self._row.fields:
            self._fault(name, "empty")
        else:
            present = ", ".join(map(str, self._row.fields))
            self._fault(name, f"missing; the row has {present or 'no keys'}")

    def _text(self, name: str) -> str | None:
        value = self._value(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if value is None or value == "" or isinstance(value, str):
            self._missing(name)
        else:
            self._fault(name, f"not a text: {str(value)[:60]!r}")
        return None

    def _id(self) -> str | None:
        value = self._value("id")
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self._text("id")

    def _choices(self) -> Choices | None:
        value = self._value("choices")
        if value is None or value == "":
            return None
        try:
            return read_choices(value)
        except BadFieldError as error:
            self._fault("choices", str(error))
            return None

    def _kind(self) -> str | None:
        kind = self._value("kind")
        has_choices = self._value("choices") not in (None, "")
        if kind is None:
            number = read_number(str(self._value("answer")))
            return "choice" if has_choices else "expression" if number is None else "number"
        if kind not in KINDS:
            self._fault("kind", f"{kind!r}; {allowed_names(str(kind), KINDS)}")
            return None
        if kind == "choice" and not has_choices:
            self._missing("choices")
        return str(kind)

    def _answer(self, kind: str | None, choices: Choices | None) -> str | None:
        answer = self._value("answer")
        if answer is None or answer != answer or not str(answer).strip():  # noqa: PLR0124, not a number
            self._missing("answer")
            return None
        try:
            return _label(answer, kind, choices)
        except BadFieldError as error:
            self._fault("answer", str(error))
            return None


def _label(answer: Any, kind: str | None, choices: Choices | None) -> str | None:
    """Label of the right outcome, or None where the kind or its choices are no good."""
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise BadFieldError(f"not a text or a number: {str(answer)[:60]!r}")
    if kind == "choice":
        return None if choices is None else answer_letter(answer, choices)
    if kind == "number":
        number = read_number(str(answer))
        if number is None:
            raise BadFieldError(f"{answer!r} is not a number")
        return number_label(number)
    label = " ".join(str(answer).split())
    if label in (OTHER, TRUNCATED):
        raise BadFieldError(
            f"{label!r} is what a completion without an answer is called; reword it"
        )
    return label

"""The questions command, and the questions that come with the project."""

import json
from pathlib import Path

import pytest

from helpers.repository import ROOT
from refork.cli.main import main
from refork.tasks.arithmetic import generate, worked_examples
from refork.tasks.examples import Example, load_examples
from refork.tasks.questions import load_questions
from refork.tasks.source import QuestionSource

KEPT = ROOT / "config" / "questions"


def made(folder: Path, *arguments: str) -> tuple[Path, Path]:
    questions, examples = folder / "new" / "q.jsonl", folder / "new" / "e.yaml"
    paths = ["--out", str(questions), "--examples", str(examples)]
    assert main(["questions", *arguments, *paths]) == 0
    return questions, examples


def test_the_projects_questions_are_made_anew_byte_for_byte(tmp_path: Path) -> None:
    questions, examples = made(tmp_path, "--count", "48", "--seed", "0")
    assert questions.read_bytes() == (KEPT / "arithmetic.jsonl").read_bytes()
    assert examples.read_bytes() == (KEPT / "arithmetic_examples.yaml").read_bytes()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    questions, examples = made(tmp_path, "--count", "70", "--seed", "5")
    assert load_questions(QuestionSource(file=str(questions))) == generate(70, 5)
    assert load_examples(examples).of_kind("number") == tuple(worked_examples(5))
    assert load_examples(examples).of_kind("choice") == ()


def test_a_row_has_the_fields_of_any_question_file(tmp_path: Path) -> None:
    questions, _ = made(tmp_path, "--count", "1")
    (row,) = map(json.loads, questions.read_text().splitlines())
    assert list(row) == ["id", "question", "answer"]


def test_a_chain_of_thought_stands_line_by_line(tmp_path: Path) -> None:
    _, path = made(tmp_path)
    example = worked_examples(0)[0]
    assert isinstance(example, Example)
    assert all(f"    {line}\n" in path.read_text() for line in example.answer.splitlines())


def test_examples_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    assert main(["questions", "--out", str(tmp_path / "q.jsonl")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["q.jsonl"]


def test_one_file_for_both_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = str(tmp_path / "q.jsonl")
    assert main(["questions", "--out", both, "--examples", both]) == 1
    assert capsys.readouterr().err.startswith(f"refork: --examples: is {both}, the file of --out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", ["0", "1000000"])
def test_too_few_and_too_many_are_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    assert main(["questions", "--count", count, "--out", str(tmp_path / "q.jsonl")]) == 1
    assert capsys.readouterr().err.startswith(f"refork: {count} questions: allowed are 1 to ")
    assert list(tmp_path.iterdir()) == []

"""Questions from files and datasets, and every way in which they can be bad."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refork.errors import ReforkError
from refork.tasks.questions import Question, load_questions, questions_digest
from refork.tasks.source import QuestionSource

Writer = Callable[..., str]
BEES = {
    "id": "bees",
    "question": "What do bees make?",
    "choices": ["milk", "honey"],
    "answer": "honey",
}
SUM = {"id": "sum", "question": "What is 5 + 7?", "answer": "12"}
LOADED = [
    Question("bees", "choice", "What do bees make?", "B", ("milk", "honey")),
    Question("sum", "number", "What is 5 + 7?", "12"),
]


def _errors(path: str, **source: Any) -> list[str]:
    with pytest.raises(ReforkError) as caught:
        load_questions(QuestionSource(file=path, **source))
    return [line.strip() for line in str(caught.value).splitlines()]


def test_jsonl(jsonl: Writer) -> None:
    questions = load_questions(QuestionSource(file=jsonl(BEES, "", SUM)))
    assert questions == LOADED
    assert [question.where.rpartition(":")[2] for question in questions] == ["1", "3"]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "question", "choices", "answer"])
        writer.writerow(["bees", "What do bees make?", json.dumps(["milk", "honey"]), "B"])
        writer.writerow(["sum", "What is 5 + 7?", "", "12.0"])
    assert load_questions(QuestionSource(file=str(path))) == LOADED


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "questions.parquet"
    pq.write_table(pa.Table.from_pylist([BEES, SUM]), path)
    assert load_questions(QuestionSource(file=str(path))) == LOADED


def test_columns_are_mapped_and_ids_are_made_from_row_numbers(jsonl: Writer) -> None:
    path = jsonl(
        {"problem": "1 + 1", "solution": "It is two.\n#### 2"}, {"problem": "x", "solution": "x^2"}
    )
    columns = {"question": "problem", "answer": "solution"}
    assert load_questions(QuestionSource(file=path, columns=columns)) == [
        Question("1", "number", "1 + 1", "2"),
        Question("2", "expression", "x", "x^2"),
    ]


def test_limit_takes_the_first(jsonl: Writer) -> None:
    assert load_questions(QuestionSource(file=jsonl(BEES, SUM), limit=1)) == LOADED[:1]


@pytest.mark.parametrize(
    ("choices", "answer", "letter"),
    [
        (["milk", "honey"], "b", "B"),
        (["milk", "honey"], "(B)", "B"),
        (["milk", "honey"], 1, "B"),
        ([3, 5], "5", "B"),
        ({"text": ["milk", "honey"], "label": ["1", "2"]}, "2", "B"),
        ({"A": "milk", "B": "honey"}, "B", "B"),
        ([f"choice {number}" for number in range(26)], "Z", "Z"),
    ],
)
def test_answer_of_a_choice(jsonl: Writer, choices: Any, answer: Any, letter: str) -> None:
    path = jsonl({"question": "Which?", "choices": choices, "answer": answer})
    assert load_questions(QuestionSource(file=path))[0].answer == letter


@pytest.mark.parametrize(
    ("answer", "kind", "label"),
    [
        ("$1,000.50", "number", "1000.5"),
        (3.0, "number", "3"),
        ("1/3", "number", "1/3"),
        ("-0.50", "number", "-0.5"),
        ("5 hats", "expression", "5 hats"),
    ],
)
def test_kind_and_label_of_an_answer(jsonl: Writer, answer: Any, kind: str, label: str) -> None:
    question = load_questions(QuestionSource(file=jsonl({"question": "?", "answer": answer})))[0]
    assert (question.kind, question.answer) == (kind, label)


def test_text_kind(jsonl: Writer) -> None:
    path = jsonl({"id": 7, "kind": "text", "question": "Who?", "answer": " Ada  Lovelace "})
    assert load_questions(QuestionSource(file=path)) == [
        Question("7", "text", "Who?", "Ada Lovelace")
    ]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ('{"id": "x", ', "2: not JSON (Expecting property name enclosed in double quotes, column"),
        ('{"id": "x" "answer": 1}', "2: not JSON (Expecting ',' delimiter, column 12)"),
        ("[1, 2]", "2: not a JSON object"),
        ('{"id": "x", "question": "\\ud800", "answer": "1"}', "2: not JSON"),
        ({**SUM, "id": "bees"}, "2: id: 'bees' stands already at"),
        ({**SUM, "id": ""}, "2: id: empty"),
        ({"question": "5 + 7?", "answer": "12"}, "2: id: missing; the row has question, answer"),
        ({"id": "x", "question": "5 + 7?"}, "2: answer: missing"),
        ({**SUM, "answer": " "}, "2: answer: empty"),
        ({**SUM, "answer": ["12"]}, "2: answer: not a text or a number"),
        ({**SUM, "question": None}, "2: question: empty"),
        ({**SUM, "question": 3}, "2: question: not a text"),
        (
            {**SUM, "kind": "numbr"},
            "2: kind: 'numbr'; allowed: choice, number, expression, text; did",
        ),
        ({**SUM, "kind": "choice"}, "2: choices: missing"),
        ({**SUM, "kind": "number", "answer": "twelve"}, "2: answer: 'twelve' is not a number"),
        ({**SUM, "kind": "text", "answer": " other"}, "2: answer: 'other' is what a completion"),
        ({**SUM, "answer": "truncated"}, "2: answer: 'truncated' is what a completion"),
        (
            {**BEES, "id": "x", "answer": "wax"},
            "2: answer: 'wax' is not among the choices; allowed: a",
        ),
        ({**BEES, "id": "x", "answer": "C"}, "2: answer: 'C' is not among the choices"),
        (
            {**BEES, "id": "x", "answer": 2},
            "2: answer: 2 is not among the choices; allowed: a letter A to B, the text of a "
            "choice, or its index 0 to 1",
        ),
        ({**BEES, "id": "x", "choices": ["honey"]}, "2: choices: 1 choices; allowed: 2 to 26"),
        (
            {**BEES, "id": "x", "choices": ["honey"] * 27},
            "2: choices: 27 choices; allowed: 2 to 26",
        ),
        ({**BEES, "id": "x", "choices": ["honey", ""]}, "2: choices: choice B is empty"),
        ({**BEES, "id": "x", "choices": "honey, milk"}, "2: choices: not a JSON list"),
        (
            {**BEES, "id": "x", "choices": ["honey", "honey"]},
            "2: answer: 'honey' could mean A or B",
        ),
        ({**BEES, "id": "x", "choices": ["B", "A"], "answer": "A"}, "could mean A or B"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_key(
    jsonl: Writer, record: dict[str, Any] | str, words: str
) -> None:
    path = jsonl(BEES, record)
    (message,) = _errors(path)
    assert message.startswith(path)
    assert words in message


def test_all_problems_come_at_once(jsonl: Writer) -> None:
    message = _errors(jsonl("{", {"id": "x", "question": ""}, *[{"id": "y"}] * 20))
    assert message[0] == "43 errors"
    assert len(message) == 22
    assert message[-1] == "… and 23 more"


def test_bad_csv(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_bytes(b'question,answer\n1 + 1,2,3\n1 + 2\n\xff,3\n"1" + 2,3\n')
    messages = _errors(str(path))
    assert f"{path}:2: not as many cells as the header has columns" in messages
    assert f"{path}:3: not as many cells as the header has columns" in messages
    assert any(message.startswith(f"{path}:4: not UTF-8") for message in messages)
    assert any(message.startswith(f"{path}:5: not CSV") for message in messages)


def test_bad_parquet(tmp_path: Path) -> None:
    path = tmp_path / "questions.parquet"
    path.write_bytes(b"PAR1 and no more")
    assert "not a whole Parquet file" in _errors(str(path))[0]


@pytest.mark.parametrize("content", ["", "\n\n", "id,question,answer\n"])
def test_empty_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / ("questions.csv" if "," in content else "questions.jsonl")
    path.write_text(content, encoding="utf-8")
    assert _errors(str(path)) == [f"{path}: no questions"]


def test_unknown_ending_and_missing_file() -> None:
    assert "unknown file ending '.json'; allowed: .jsonl, .csv, .parquet" in _errors("x.json")[0]
    assert _errors("nowhere.jsonl") == [
        f"questions.file: nowhere.jsonl: no such file in {Path.cwd()}"
    ]


def test_unknown_field_in_columns(jsonl: Writer) -> None:
    message = _errors(jsonl(SUM), columns={"qestion": "problem"})
    assert message[0].startswith("questions.columns.qestion")
    assert "did you mean 'question'?" in message[0]


@pytest.mark.parametrize("source", [QuestionSource(), QuestionSource(file="a.csv", dataset="b")])
def test_either_file_or_dataset(source: QuestionSource) -> None:
    with pytest.raises(ReforkError, match="either `file` or `dataset`"):
        load_questions(source)


def test_digest_is_of_the_content(jsonl: Writer) -> None:
    first = load_questions(QuestionSource(file=jsonl(BEES, SUM)))
    second = load_questions(QuestionSource(file=jsonl(BEES, "", SUM)))
    assert questions_digest(first) == questions_digest(second)
    assert questions_digest(first) != questions_digest(first[:1])


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


@pytest.mark.usefixtures("no_cache")
def test_folder_of_data_files(tmp_path: Path) -> None:
    folder = tmp_path / "bees"
    folder.mkdir()
    for split, record in {"train": {**BEES, "id": "ants"}, "test": BEES}.items():
        (folder / f"{split}.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    source = QuestionSource(dataset=str(folder), split="test")
    assert load_questions(source) == LOADED[:1]
    with pytest.raises(ReforkError, match=r"questions\.dataset: .*dev"):
        load_questions(QuestionSource(dataset=str(folder), split="dev"))


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.usefixtures("no_cache")
def test_folder_made_by_save_to_disk(tmp_path: Path, splits: bool) -> None:
    folder = str(tmp_path / "saved")
    features = datasets.Features(
        question=datasets.Value("string"),
        choices=datasets.List(datasets.Value("string")),
        answer=datasets.ClassLabel(names=["first", "second"]),
    )
    records = [{"question": "What do bees make?", "choices": ["milk", "honey"], "answer": 1}] * 3
    saved = datasets.Dataset.from_list(records, features=features)
    (datasets.DatasetDict(validation=saved) if splits else saved).save_to_disk(folder)
    source = QuestionSource(dataset=folder, split="validation", limit=2)
    questions = load_questions(source)
    assert [(question.question_id, question.answer) for question in questions] == [
        ("1", "B"),
        ("2", "B"),
    ]
    if splits:
        with pytest.raises(
            ReforkError, match="no split 'valid'; allowed: validation; did you mean"
        ):
            load_questions(QuestionSource(dataset=folder, split="valid"))

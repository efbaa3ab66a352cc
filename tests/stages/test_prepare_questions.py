"""Stage prepare_questions: prompts of every rollout, in shards."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from refork.data.files import file_sha256, write_json
from refork.data.manifest import manifest_path
from refork.data.schemas import QUESTIONS
from refork.data.tables import read_table, write_table
from refork.errors import ReforkError
from refork.stages.prepare_questions import (
    Plan,
    load_tokenizer,
    prepare_questions,
    prompt_tables,
)
from refork.study.config import Prompt, Questions
from refork.study.lock import question_source
from refork.tasks.letters import LETTERS
from refork.tasks.prompts import Prompter, PromptSettings
from refork.tasks.questions import load_questions, questions_digest
from refork.tasks.source import QuestionSource
from refork.tasks.text import control_texts

PLAN = Plan(rollouts=3, seed=0, context_length=4096)
RECORDS = [
    {"id": f"sum-{number}", "question": f"What is {number} + 7?", "answer": number + 7}
    for number in range(4)
] + [{"id": "bees", "question": "What?", "choices": ["milk", "bread", "honey"], "answer": "honey"}]


@pytest.fixture
def model_folder(tokenizer_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tokenizer_folder, tmp_path / "model"))


@pytest.fixture
def source(tmp_path: Path) -> QuestionSource:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    return QuestionSource(file=str(path))


def _prepare(source: QuestionSource, plan: Plan, model_folder: Path) -> list[pa.Table]:
    tokenizer = load_tokenizer(model_folder, trust_remote_code=False)
    return prompt_tables(load_questions(source), Prompter(PromptSettings(), tokenizer), plan)


def test_one_row_a_rollout(source: QuestionSource, model_folder: Path, tmp_path: Path) -> None:
    (table,) = _prepare(source, PLAN, model_folder)
    rows = table.to_pylist()
    assert [(row["question_id"], row["rollout"]) for row in rows] == [
        (record["id"], rollout) for record in RECORDS for rollout in range(3)
    ]
    assert rows[0]["answer"] == "7"
    assert json.loads(rows[0]["messages"])[0]["content"].startswith("What is 0 + 7?")
    write_table(table, tmp_path / "shard.parquet", QUESTIONS)
    assert read_table(tmp_path / "shard.parquet", QUESTIONS).equals(table)


def test_shards_are_contiguous_and_may_be_empty(source: QuestionSource, model_folder: Path) -> None:
    whole = _prepare(source, PLAN, model_folder)[0]
    for shards in (2, 3, 7):
        plan = Plan(rollouts=3, seed=0, context_length=4096, shards=shards)
        tables = _prepare(source, plan, model_folder)
        assert len(tables) == shards
        assert pa.concat_tables(tables).equals(whole)
        assert all(table.num_rows % 3 == 0 and table.schema == QUESTIONS for table in tables)
    assert any(table.num_rows == 0 for table in tables)


def test_permuted_choices_and_their_answer(source: QuestionSource, model_folder: Path) -> None:
    plan = Plan(rollouts=60, seed=0, context_length=4096, permute_choices=True, shards=2)
    rows = [row for row in _prepare(source, plan, model_folder)[1].to_pylist() if row["choices"]]
    assert all(row["choices"][LETTERS.index(row["answer"])] == "honey" for row in rows)
    assert set(Counter(row["answer"] for row in rows)) == set("ABC")
    for row in rows:
        shown = [f"({letter}) {text}" for letter, text in zip("ABC", row["choices"], strict=True)]
        assert "\n".join(shown) in json.loads(row["messages"])[0]["content"]
    other_seed = Plan(rollouts=60, seed=1, context_length=4096, permute_choices=True)
    others = [
        row for row in _prepare(source, other_seed, model_folder)[0].to_pylist() if row["choices"]
    ]
    assert [row["answer"] for row in rows] != [row["answer"] for row in others]


def test_questions_longer_than_the_context_are_named(
    source: QuestionSource, model_folder: Path
) -> None:
    lengths = [
        len(ids) for ids in _prepare(source, PLAN, model_folder)[0]["prompt_token_ids"].to_pylist()
    ]
    just_fits = Plan(rollouts=3, seed=0, context_length=max(lengths) + 1)
    assert len(_prepare(source, just_fits, model_folder)) == 1
    with pytest.raises(ReforkError) as caught:
        _prepare(source, Plan(rollouts=3, seed=0, context_length=max(lengths)), model_folder)
    assert f"{source.file}:5: question bees: its prompt has {max(lengths)} tokens" in str(
        caught.value
    )


@pytest.fixture
def stage(source: QuestionSource, tmp_path: Path) -> dict[str, Any]:
    examples = tmp_path / "examples.yaml"
    examples.write_text("- {question: '1 + 2?', answer: 'Answer: 3'}\n")
    settings = {
        "questions": Questions(file=source.file).model_dump(),
        "prompt": Prompt(examples=str(examples)).model_dump(),
        "rollouts": {"count": PLAN.rollouts},
        "trust_remote_code": False,
        "seed": None,
    }
    locked = {
        "questions": questions_digest(load_questions(source)),
        "examples": file_sha256(examples),
    }
    return {"settings": settings, "lock": locked}


@pytest.mark.parametrize("name", ["questions", "examples"])
def test_what_is_not_that_of_the_lock(stage: dict[str, Any], model_folder: Path, name: str) -> None:
    write_json(manifest_path(model_folder), {"context_length": PLAN.context_length})
    (table,) = prepare_questions(stage, model_folder, 1)
    assert "1 + 2?" in table["messages"][0].as_py()
    stage["lock"][name] = "0" * 64
    with pytest.raises(ReforkError, match=f"the {name} .* are not those that were locked"):
        prepare_questions(stage, model_folder, 1)


def test_a_question_that_speaks_as_the_chat_template_does(
    stage: dict[str, Any], model_folder: Path
) -> None:
    write_json(manifest_path(model_folder), {"context_length": PLAN.context_length})
    control = min(control_texts(model_folder))
    file = Path(stage["settings"]["questions"]["file"])
    lines = file.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "question": f"1 + 1?{control}2"})
    file.write_text("\n".join(lines) + "\n")
    questions = load_questions(question_source(stage["settings"]["questions"]))
    stage["lock"]["questions"] = questions_digest(questions)
    with pytest.raises(ReforkError, match=r"jsonl:1: question [\w-]+: holds .*a control token"):
        prepare_questions(stage, model_folder, 1)


def test_a_model_that_does_not_say_its_context_length(
    stage: dict[str, Any], model_folder: Path
) -> None:
    write_json(manifest_path(model_folder), {"context_length": None})
    assert prepare_questions(stage, model_folder, 1)[0].num_rows == len(RECORDS) * PLAN.rollouts


def test_a_folder_without_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match="no tokenizer can be loaded"):
        load_tokenizer(tmp_path, trust_remote_code=False)

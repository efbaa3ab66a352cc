"""What is wrong is said in words, before any job, and nothing is left half-written."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.project import QUESTIONS, Project

pytestmark = pytest.mark.workflow


def refused(project: Project, *said: str, arguments: tuple[str, ...] = ()) -> None:
    """Run, and see a refusal in words that leaves no table behind."""
    run = project.run(*arguments)
    assert run.status != 0
    for words in said:
        assert words in run.words
    assert "Traceback" not in run.words
    assert list(project.results.rglob("*.parquet")) == []
    assert list(project.results.rglob("*.tmp")) == []


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


GOOD = QUESTIONS[0]


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        (lines(GOOD, '{"id": "b", '), "questions.jsonl:2: "),
        (lines(GOOD, GOOD), "questions.jsonl:2: id: 'c0' stands already at questions.jsonl:1"),
        (lines(GOOD, {"id": "b", "question": "?"}), "questions.jsonl:2: answer: "),
        (lines({**GOOD, "answer": "v"}), "questions.jsonl:1: answer: "),
        ("", "questions.jsonl"),
    ],
    ids=["malformed", "twice", "no answer", "not a choice", "empty"],
)
def test_a_bad_questions_file_is_refused_before_any_job(
    project: Project, questions: str, said: str
) -> None:
    project.ask(questions)
    refused(project, said)


def test_all_config_errors_at_once(project: Project) -> None:
    project.configure(rolouts={}, pivots={"margin": -1.0}, report={"palette": "huslish"})
    refused(
        project,
        "config/demo.yaml: 3 errors in the config",
        "rolouts: no such key; did you mean `rollouts`?",
        "pivots.margin: is -1.0; input should be greater than 0",
        "report.palette: is 'huslish'",
    )


def test_a_model_folder_without_weights(project: Project) -> None:
    (project.folder / "model").mkdir()
    (project.folder / "model" / "config.json").write_text("{}")
    project.configure(engine={"kind": "torch"}, model={"folder": "model"})
    refused(project, "model")


def test_questions_that_changed_behind_the_lock(project: Project) -> None:
    project.run("--dry-run", "--cores", "2")
    project.ask(QUESTIONS[:3])
    refused(project, "the lock no longer fits the config", "refork lock")


def test_two_runs_at_the_same_time(project: Project) -> None:
    project.configure(engine={"synthetic": {"step_seconds": 2.0}})
    first = project.start()
    try:
        deadline = time.monotonic() + 60
        while not (project.results / "prepare_model").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = project.run()
        assert second.status != 0
        assert "another run is at work in this results folder" in second.words
        assert f"process {first.pid}" in second.words
        look = project.run("--dry-run", "--cores", "2")
        assert look.status == 0, look.words
        words, _ = first.communicate(timeout=240)
        assert first.returncode == 0, words
    finally:
        if first.poll() is None:
            first.kill()
            first.communicate()


def test_a_full_disk(project: Project, full_disk: Path) -> None:
    project.configure(results=str(full_disk))
    filler = full_disk / "filler"
    filler.write_bytes(b"x" * 900_000)
    run = project.run()
    assert run.status != 0
    assert "No space left on device" in run.words
    assert list(full_disk.rglob("*.tmp")) == []
    filler.unlink()
    assert project.succeed()

"""The lock: made once, shared by variants, held against what it names."""

import json
import shutil
from pathlib import Path

import pytest

from helpers.studies import Studies
from refork.errors import ReforkError
from refork.study import lock
from refork.study.loading import Study
from refork.study.lock import lock_path, make_lock_if_absent, read_lock, write_lock
from refork.tasks.questions import Question, load_questions
from refork.tasks.source import QuestionSource

QUESTION = {"id": "a", "question": "1 + 1?", "answer": "2"}


@pytest.fixture
def study(in_folder: Path, study_of: Studies) -> Study:
    """A study of one question on the synthetic engine, in an empty folder."""
    (in_folder / "questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    return synthetic(study_of)


def synthetic(study_of: Studies, **overrides: object) -> Study:
    engine = {"kind": "synthetic", "device": "auto"}
    return study_of(model={"folder": None}, engine=engine, **overrides)


def test_a_lock_is_made_once(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    make_lock_if_absent(study)
    assert "making the lock results/small/small.lock.json" in capsys.readouterr().err
    written = lock_path(study).read_bytes()
    make_lock_if_absent(study)
    assert lock_path(study).read_bytes() == written
    assert capsys.readouterr().err == ""


def test_it_says_what_the_config_points_at(study: Study) -> None:
    write_lock(study)
    locked = read_lock(study)["variants"]["base"]
    assert locked["questions"]["count"] == 1
    assert locked["engine"]["kind"] == "synthetic"
    assert locked["engine"]["device"] == "cpu"
    assert locked["engine"]["block_size"] == 1
    assert locked["examples"] is None
    assert len(locked["model"]["digest"]) == 64


def test_variants_share_entries_and_new_ones_need_no_new_lock(
    study: Study, study_of: Studies
) -> None:
    write_lock(study)
    variants = {"a": {}, "b": {"engine": {"dtype": "float32"}, "pivots": {"margin": 0.1}}}
    locked = read_lock(synthetic(study_of, variants=variants))["variants"]
    assert locked["a"] == locked["b"]


def test_a_config_that_points_elsewhere_is_said(study: Study, study_of: Studies) -> None:
    write_lock(study)
    other = synthetic(study_of, questions={"limit": 1})
    said = r"(?s)no longer fits.*base: questions \(file: .*, limit: 1\) was never locked"
    with pytest.raises(ReforkError, match=said):
        read_lock(other)


def test_changed_questions_are_said_and_touched_ones_are_not(study: Study) -> None:
    path = Path("questions.jsonl")
    write_lock(study)
    path.write_text(path.read_text())
    read_lock(study)
    path.write_text(json.dumps({**QUESTION, "answer": "3"}) + "\n")
    with pytest.raises(ReforkError, match=r"has changed since it was locked.*\n.*refork lock"):
        read_lock(study)
    path.unlink()
    with pytest.raises(ReforkError, match=r"questions\.jsonl"):
        read_lock(study)


def test_what_is_written_while_it_is_read_counts_as_changed(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(source: QuestionSource) -> list[Question]:
        questions = load_questions(source)
        Path("questions.jsonl").write_text(json.dumps({**QUESTION, "answer": "3"}) + "\n")
        return questions

    with monkeypatch.context() as patched:
        patched.setattr(lock, "load_questions", load)
        write_lock(study)
    with pytest.raises(ReforkError, match="has changed since it was locked"):
        read_lock(study)


def test_examples_are_locked(study: Study, study_of: Studies) -> None:
    with_examples = synthetic(study_of, prompt={"examples": "examples.yaml"})
    with pytest.raises(ReforkError, match=r"prompt\.examples: examples\.yaml: no such file"):
        write_lock(with_examples)
    path = Path("examples.yaml")
    path.write_text("- {question: '1 + 2?'}\n")
    with pytest.raises(ReforkError, match=r"examples\.yaml: .*answer: missing"):
        write_lock(with_examples)
    path.write_text("- {question: '1 + 2?', answer: 'Answer: 3'}\n")
    write_lock(with_examples)
    path.write_text("- {question: '1 + 3?', answer: 'Answer: 4'}\n")
    with pytest.raises(ReforkError, match=r"examples .* has changed since"):
        read_lock(with_examples)


def test_the_weights_of_a_folder_are_locked(
    study: Study, study_of: Studies, synthetic_model: Path
) -> None:
    # Any folder that a model source accepts will do; the engine is not started by the lock.
    folder = Path("model")
    folder.mkdir()
    for file in synthetic_model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    here = study_of(engine={"kind": "torch", "device": "cpu"})
    write_lock(here)
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ReforkError, match=r"model .* has changed since"):
        read_lock(here)


def test_a_file_that_came_into_a_model_folder_is_said(
    study: Study, study_of: Studies, synthetic_model: Path
) -> None:
    folder = Path(shutil.copytree(synthetic_model, "model"))
    template = folder / "chat_template.jinja"
    content = template.read_text()
    template.unlink()
    here = study_of(engine={"kind": "torch", "device": "cpu"})
    write_lock(here)
    read_lock(here)
    template.write_text(content)
    with pytest.raises(ReforkError, match=r"model .* has changed since"):
        read_lock(here)


def test_a_local_dataset_is_locked(study: Study, study_of: Studies) -> None:
    folder = Path("dataset", "data")
    folder.mkdir(parents=True)
    (folder / "test-0.jsonl").write_text(json.dumps(QUESTION) + "\n")
    here = synthetic(study_of, questions={"file": None, "dataset": "dataset"})
    write_lock(here)
    read_lock(here)
    (folder / "test-1.jsonl").write_text(json.dumps({**QUESTION, "id": "b"}) + "\n")
    with pytest.raises(ReforkError, match=r"questions .* has changed since"):
        read_lock(here)


def test_an_interpreter_that_cannot_be_run_is_said(study: Study, study_of: Studies) -> None:
    engine = {"kind": "synthetic", "python": "no/such/python"}
    broken = study_of(model={"folder": None}, engine=engine)
    with pytest.raises(ReforkError, match=r"engine\.python: no/such/python: cannot be run"):
        write_lock(broken)


def test_a_grader_that_does_not_fit_the_questions_is_said_at_once(
    study: Study, study_of: Studies
) -> None:
    write_lock(study)
    other = synthetic(study_of, variants={"a": {}, "b": {"grading": {"grader": "choice"}}})
    said = "variant b: grading.grader: 'choice' cannot grade question a, which is of kind 'number'"
    with pytest.raises(ReforkError, match=said):
        read_lock(other)
    with pytest.raises(ReforkError, match=said):
        write_lock(other)


VLLM = {
    "kind": "vllm",
    "device": "cpu",
    "hardware": "any",
    "version": "vllm engine 1",
    "block_size": 32,
    "exact": "decode_replay",
}


def elsewhere(folder: Path, told: dict[str, object]) -> str:
    """Make an interpreter whose environment has this engine; it writes down what it is asked."""
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/asked\necho a library warns >&2\n'
        "echo refork: engine.kind: auto is vllm: it is there >&2\n"
        f"echo '{json.dumps(told)}'\n"
    )
    python.chmod(0o755)
    return str(python)


def test_what_auto_is_settled_to_is_said(
    study: Study,
    study_of: Studies,
    in_folder: Path,
    synthetic_model: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(synthetic_model, in_folder / "model")
    engine = {"kind": "auto", "device": "auto", "python": elsewhere(in_folder, VLLM)}
    write_lock(study_of(engine=engine))
    assert capsys.readouterr().err == "refork: engine.kind: auto is vllm: it is there\n"
    assert read_lock(study_of(engine=engine))["variants"]["base"]["engine"] == VLLM
    asked = {**engine, "vllm": {"block_size": 64}}
    with pytest.raises(ReforkError, match=r"engine \(.*block_size: 64\) was never locked"):
        read_lock(study_of(engine=asked))
    write_lock(study_of(engine=asked))
    keeping = {**engine, "vllm": {"snapshots": True}}
    with pytest.raises(ReforkError, match=r"engine \(.*snapshots: True\) was never locked"):
        read_lock(study_of(engine=keeping))
    write_lock(study_of(engine=keeping))
    asked_for = (in_folder / "asked").read_text().splitlines()
    assert [line.partition("describe ")[2] for line in asked_for] == [
        "--kind auto --device auto",
        "--kind auto --device auto --block-size 64",
        "--kind auto --device auto --snapshots",
    ]


def test_what_a_settled_engine_cannot_do_is_said_at_once(
    study: Study, study_of: Studies, in_folder: Path, synthetic_model: Path
) -> None:
    shutil.copytree(synthetic_model, in_folder / "model")
    engine = {"kind": "auto", "device": "auto", "python": elsewhere(in_folder, VLLM)}
    passes = [{"name": "a", "state": "snapshot"}]
    bad = {"engine": {**engine, "kernels": "batch_invariant"}}
    variants = {"a": {}, "b": {"passes": passes, "noise": {"comparisons": []}}, "c": bad}
    with pytest.raises(ReforkError) as refusal:
        write_lock(study_of(engine=engine, variants=variants))
    head, *lines = str(refusal.value).splitlines()
    assert head == "2 errors"
    assert lines[0].startswith("  variants.b.passes.0.state: vLLM keeps no snapshots")
    assert lines[1].startswith("  variants.c.engine.kernels: vLLM has no batch-invariant kernels")
    write_lock(study_of(engine=engine))
    with pytest.raises(ReforkError, match=r"^engine\.processes: is 2; vLLM runs in one process"):
        read_lock(study_of(engine={**engine, "processes": 2}))

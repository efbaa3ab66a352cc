"""An engine job in several processes: the same files, whatever their number and how they end."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.engine_jobs import Jobs, lay_out
from helpers.studies import LOCKED
from refork.data.files import write_json
from refork.data.journal import Journal
from refork.data.schemas import QUESTIONS
from refork.data.tables import read_shards
from refork.engines.describe import describe
from refork.engines.interface import EngineSettings, VllmSettings
from refork.stages import engine_job
from refork.stages.engine_job import EngineJob, run_groups
from refork.stages.sample_rollouts import rollout_groups
from refork.study.config import Settings
from refork.study.stage import record_hash
from refork.study.stages import variant_stages

SLOW = {"engine": {"synthetic": {"step_seconds": 0.4}}}


@pytest.mark.parametrize(
    ("kind", "others"),
    [("synthetic", (2, 3, 9)), pytest.param("torch", (2, 3), marks=pytest.mark.slow)],
)
def test_the_number_of_processes_changes_nothing(
    kind: str, others: tuple[int, ...], synthetic_model: Path, tiny_model: Path, tmp_path: Path
) -> None:
    jobs = lay_out(tmp_path, kind, tiny_model if kind == "torch" else synthetic_model)
    made = jobs.graph.folder(jobs.graph.variants["base"].rollouts)
    one = jobs.run("sample_rollouts", made)
    assert set(one) == {"stage.json", "shard-0000.parquet", "shard-0000.safetensors"}
    del one["stage.json"]
    facts = manifest(made)
    for processes in others:  # more than the six batch groups are never started
        out = tmp_path / f"rollouts-{processes}"
        assert jobs.run("sample_rollouts", out, processes) == one
        assert manifest(out) == facts
    jobs.extract_pivots()
    alone, shared = tmp_path / "resample", tmp_path / "resample-2"
    assert jobs.run("resample", shared, 2) == jobs.run("resample", alone)
    assert manifest(shared) == manifest(alone)
    requests = manifest(alone)["requests"]
    assert isinstance(requests, int) and requests > 20


def test_the_engine_is_started_with_what_its_hash_holds(
    synthetic_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[EngineSettings] = []
    monkeypatch.setattr(engine_job, "open_engine", lambda settings, _: opened.append(settings))
    engine = {"dtype": "float32", "kernels": "batch_invariant", "threads": 3, "batch_rows": 5}
    settings = Settings.model_validate({"engine": {"kind": "torch", "device": "cpu", **engine}})
    locked = {**LOCKED, "engine": describe("torch", "cpu")}
    stages = variant_stages(settings, locked)
    for stage in (stages.rollouts, stages.passes["refeed"]):
        engine_job.start_engine(stage.record, synthetic_model, shuffled=stage.name == "resample")
    one = EngineSettings("torch", "cpu", "float32", 3, 5, "batch_invariant")
    assert opened == [one, replace(one, shuffled=True)]


def test_vllm_is_started_with_its_own_settings(
    synthetic_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[EngineSettings] = []
    monkeypatch.setattr(engine_job, "open_engine", lambda settings, _: opened.append(settings))
    locked = {
        **{"kind": "vllm", "device": "cuda", "hardware": "NVIDIA H200", "version": "vllm engine 1"},
        **{"block_size": 16, "exact": "decode_replay"},
    }
    asked: list[tuple[Any, ...]] = []

    def told(*asked_for: Any) -> dict[str, Any]:
        asked.append(asked_for)
        return locked

    monkeypatch.setattr(engine_job, "describe", told)
    given = {"tail": "decode", "filler_rows": 4, "tensor_parallel": 2, "cache_gib": 1.5}
    given |= {"max_length": 99, "arguments": {"enforce_eager": True}}
    settings = Settings.model_validate({"engine": {"kind": "vllm", "vllm": given}})
    stages = variant_stages(settings, {**LOCKED, "engine": locked})
    engine_job.start_engine(stages.rollouts.record, synthetic_model)
    assert asked == [("vllm", "cuda", 16, False)]
    vllm = VllmSettings("decode", 16, 4, 2, 1.5, 99, {"enforce_eager": True})
    assert opened == [EngineSettings("vllm", "cuda", "bfloat16", 1, 64, vllm=vllm)]


def test_gpus_are_leased_once_and_only_for_what_is_left_to_run(
    synthetic_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased: list[tuple[int, str]] = []
    monkeypatch.setattr(engine_job, "lease_gpus", lambda *asked: leased.append(asked))
    jobs = lay_out(tmp_path, "synthetic", synthetic_model)
    variant = jobs.graph.variants["base"]
    questions = read_shards([jobs.graph.folder(variant.questions)], QUESTIONS)
    for _ in range(2):
        stage, journal = variant.rollouts.record, Journal(tmp_path / "journal")
        job = EngineJob(stage, synthetic_model, journal, "rollouts", processes=2, gpus=3)
        run_groups(job, list(rollout_groups(questions, stage["settings"])))
    assert leased == [(3, "any")]


def manifest(folder: Path) -> dict[str, object]:
    record = json.loads((folder / "shard-0000.manifest.json").read_text())
    return {key: value for key, value in record.items() if key not in ("started", "seconds")}


def started(jobs: Jobs, out: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start a job of two processes; return it and them once a batch group is finished."""
    command = jobs.command("sample_rollouts", out, 2)
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(out.glob("journal/*.seal")):
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = psutil.Process(job.pid).children()
    assert len(children) == 2
    return job, children


def kill_a_child(job: subprocess.Popen[str], children: list[psutil.Process]) -> None:
    children[0].kill()


def kill_the_job(job: subprocess.Popen[str], children: list[psutil.Process]) -> None:
    job.kill()


def end_the_job(job: subprocess.Popen[str], children: list[psutil.Process]) -> None:
    job.terminate()


def interrupt_all(job: subprocess.Popen[str], children: list[psutil.Process]) -> None:
    os.killpg(job.pid, signal.SIGINT)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (kill_a_child, "refork: a process of this job was ended by SIGKILL"),
        (kill_the_job, ""),
        (end_the_job, ""),
        (interrupt_all, "KeyboardInterrupt"),
    ],
)
def test_a_job_that_is_ended_in_the_middle_goes_on_and_leaves_no_process(
    end: Callable[[subprocess.Popen[str], list[psutil.Process]], None],
    words: str,
    synthetic_model: Path,
    tmp_path: Path,
) -> None:
    jobs = lay_out(tmp_path, "synthetic", synthetic_model, **SLOW)
    out = tmp_path / "ended"
    job, children = started(jobs, out)
    end(job, children)
    _, said = job.communicate(timeout=30)
    assert job.returncode != 0
    assert words in said
    assert said.count("Traceback") == said.count("KeyboardInterrupt")
    _, left = psutil.wait_procs(children, timeout=10)
    assert left == []
    seals = {path: path.stat().st_mtime_ns for path in out.glob("journal/*.seal")}
    assert 0 < len(seals) < 6
    assert jobs.run("sample_rollouts", out, 2) == jobs.run("sample_rollouts", tmp_path / "whole")


def test_an_error_of_every_process_is_one_message(synthetic_model: Path, tmp_path: Path) -> None:
    jobs = lay_out(tmp_path, "synthetic", synthetic_model)
    record = jobs.graph.variants["base"].rollouts.record
    record["lock"]["engine"]["version"] = "synthetic engine 0"
    stage = tmp_path / "results" / "sample_rollouts" / record_hash(record) / "stage.json"
    write_json(stage, record)
    command = jobs.command("sample_rollouts", tmp_path / "out", 3)
    command[command.index("--stage") + 1] = str(stage)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("the engine is not the one that was locked") == 1
    assert done.stderr.startswith("refork: ")
    assert "Traceback" not in done.stderr

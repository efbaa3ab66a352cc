"""kill -9 of engine jobs in the middle: the restarted results equal an undisturbed run's."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from helpers.project import Project, contents

pytestmark = pytest.mark.workflow

KILLS = 3


def engine_job(run: subprocess.Popen[str], script: str) -> psutil.Process | None:
    """Return a running job of a script among the children of a Snakemake run."""
    try:
        children = psutil.Process(run.pid).children(recursive=True)
        for child in children:
            command = child.cmdline()
            if any(part.endswith(f"workflow_scripts/{script}.py") for part in command[1:2]):
                return child
    except psutil.NoSuchProcess:
        pass
    return None


def kill_in_the_middle(project: Project, script: str, sealed_before: int) -> int:
    """Kill an engine job once it has finished a batch group more; return how many are sealed."""
    run = project.start()
    deadline = time.monotonic() + 240
    try:
        while time.monotonic() < deadline:
            sealed = len(list(project.results.glob(f"journal/{script}/**/*.seal")))
            job = engine_job(run, script)
            if sealed > sealed_before and job is not None:
                os.kill(job.pid, signal.SIGKILL)
                words, _ = run.communicate(timeout=120)
                assert run.returncode != 0, words
                return len(list(project.results.glob(f"journal/{script}/**/*.seal")))
            assert run.poll() is None, f"ended before it was killed\n{run.communicate()[0]}"
            time.sleep(0.01)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
    raise AssertionError("no batch group was finished in time")


def killed_equals_undisturbed(killed: Project, undisturbed: Project, script: str) -> None:
    """Kill a project's engine jobs in the middle, restart, and compare with an undisturbed run."""
    undisturbed.succeed()
    sealed = 0
    for _ in range(KILLS):
        sealed = kill_in_the_middle(killed, script, sealed)
    killed.succeed()
    assert not list(killed.results.glob("journal/**/*.seal"))
    one, other = contents(killed.results), contents(undisturbed.results)
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


@pytest.mark.parametrize(
    ("script", "processes"), [("sample_rollouts", 1), ("resample", 1), ("resample", 2)]
)
def test_killed_synthetic_jobs_equal_an_undisturbed_run(
    project: Project, tmp_path: Path, script: str, processes: int
) -> None:
    undisturbed = twin(project, tmp_path)
    for each, shared_by in ((project, processes), (undisturbed, 1)):
        engine = {"synthetic": {"step_seconds": 0.4}, "processes": shared_by}
        each.configure(questions={"shards": 1}, engine=engine)
    killed_equals_undisturbed(project, undisturbed, script)


def twin(project: Project, tmp_path: Path) -> Project:
    """Return a second copy of a project."""
    folder = tmp_path / "twin"
    subprocess.run(["cp", "-a", str(project.folder), str(folder)], check=True)
    return Project(folder)


@pytest.mark.model
@pytest.mark.slow
def test_killed_stock_bfloat16_jobs_equal_an_undisturbed_run(
    project: Project, smollm2: Path, tmp_path: Path
) -> None:
    undisturbed = twin(project, tmp_path)
    examples = "config/questions/demo_examples.yaml"
    for each in (project, undisturbed):
        each.configure(
            questions={"file": "config/questions/demo.jsonl", "limit": 5, "shards": 1},
            prompt={"examples": examples},
            model={"folder": str(smollm2)},
            engine={"kind": "torch", "device": "cpu", "batch_rows": 16},
            rollouts={"temperature": 0.7},
            resample={"temperature": 0.7, "max_tokens": 32, "continuations": 2, "draw_block": 2},
        )
    killed_equals_undisturbed(project, undisturbed, "resample")

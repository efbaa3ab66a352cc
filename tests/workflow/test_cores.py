"""An engine job books the cores of all its processes, and starts no more than it was given."""

import re

import pytest

from helpers.project import Project

pytestmark = pytest.mark.workflow


@pytest.mark.parametrize(("cores", "processes"), [("8", "3"), ("4", "2"), ("1", "1")])
def test_processes_of_an_engine_job(project: Project, cores: str, processes: str) -> None:
    project.configure(engine={"threads": 2, "processes": 3})
    run = project.run("--cores", cores, "--dry-run", "--printshellcmds")
    assert run.status == 0, run.words
    for rule in ("sample_rollouts", "resample"):
        [calls] = {
            tuple(re.findall(r"--processes (\d+)", line))
            for line in run.words.splitlines()
            if f"workflow_scripts/{rule}.py" in line
        }
        assert calls == (processes,)

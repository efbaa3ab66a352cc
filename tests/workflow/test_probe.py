"""The probe and the workflow share a results folder."""

import json
import subprocess

import pytest

from helpers.project import Project
from helpers.repository import BIN

pytestmark = pytest.mark.workflow


def test_the_workflow_goes_on_from_what_a_probe_has_made(project: Project) -> None:
    command = [str(BIN / "refork"), "probe", "config/demo.yaml", "--json"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["base"]["rollouts"] == 16
    jobs = project.succeed()
    assert "prepare_model" not in jobs
    assert "prepare_questions" not in jobs
    assert jobs["sample_rollouts"] == 2

"""The probe and the workflow share a results folder."""

import json
import subprocess

import pytest

from helpers.project import Project
from helpers.repository import BIN
from helpers.tiny_model import write_tiny_model
from refork.data.probe_record import read_probe

pytestmark = pytest.mark.workflow


def test_the_workflow_goes_on_from_what_a_probe_has_made(project: Project) -> None:
    command = [str(BIN / "refork"), "probe", "config/demo.yaml", "--json"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["base"]["rollouts"] == 16
    jobs = project.succeed()
    assert "prepare_model" not in jobs
    assert "prepare_questions" not in jobs
    assert jobs["sample_rollouts"] == 2


# Put behind the copy's own `open_engine`: with company, a log-probability is another.
SPOILED = """

_open = open_engine


def open_engine(settings, folder):
    engine = _open(settings, folder)
    run = engine.run_group

    def spoiled(requests, *paths):
        results = run(requests, *paths)
        if requests.num_rows == 1:
            return results
        rows = results.to_pylist()
        for row in rows:
            row["logprobs"][0] -= 0.125
        return results.from_pylist(rows, schema=results.schema)

    engine.run_group = spoiled
    return engine
"""


@pytest.mark.slow
def test_a_study_goes_on_only_from_a_probe_that_holds(project: Project) -> None:
    write_tiny_model(project.folder / "tiny")
    project.configure(
        engine={"kind": "torch", "device": "cpu", "kernels": "batch_invariant", "batch_rows": 16},
        model={"folder": "tiny"},
        rollouts={"max_tokens": 12},
        resample={"max_tokens": 12},
    )
    engines = project.folder / "workflow_scripts" / "refork" / "engines" / "__init__.py"
    honest = engines.read_text()
    engines.write_text(honest + SPOILED)
    run = project.run()
    assert run.status != 0
    assert "engine.kernels: is 'batch_invariant', but the probe finds otherwise" in run.words
    assert "alone differs: " in run.words
    assert "log-probabilities up to 0.125 nat apart" in run.words
    assert not list(project.results.glob("probe_engine/*/probe*.json"))
    assert not list(project.results.glob("sample_rollouts/*/*.parquet"))
    engines.write_text(honest)
    jobs = project.succeed()
    assert (jobs["probe_engine"], jobs["sample_rollouts"]) == (1, 2)
    record = read_probe(project.results / "small" / "base" / "probe_engine" / "probe.json")
    assert record.invariant
    page = (project.results / "small" / "report.html").read_text()
    assert "Its kernels are batch-invariant, as a probe measured over 16 rollouts." in page
    assert "Probe of the engine" in page

"""`make` as a newcomer meets it: its commands, its words, and the demo in a fresh copy."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.repository import ROOT, copy_to

MAKEFILE = (ROOT / "Makefile").read_text()
DEMO_SECONDS = 360
VLLM_DEMO_SECONDS = 480
NOTHING_TO_DO_SECONDS = 10

Run = Callable[[str], subprocess.CompletedProcess[str]]


def run_in(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command as a newcomer would, with nothing inherited of this test run."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VIRTUAL_ENV", "PYTHON", "MAKE", "MFLAGS", "PYTEST", "COV_"))
    }
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def fake_python(folder: Path, broken: str) -> Path:
    """Make a python3 that fails whenever its arguments name `broken`."""
    path = folder / "python3"
    path.write_text(f'#!/bin/sh\ncase "$*" in *{broken}*) exit 1;; esac\nexec python3 "$@"\n')
    path.chmod(0o755)
    return path


def test_make_alone_lists_every_command() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert phony
    listed = [line.split()[1] for line in run_in(ROOT, "make").stdout.splitlines()]
    assert listed == phony[1].split()


@pytest.mark.parametrize(
    ("broken", "words"),
    [("ensurepip", "apt install python3-venv"), ("version_info", "Python 3.11 or newer")],
)
def test_what_is_missing_is_said_in_words(tmp_path: Path, broken: str, words: str) -> None:
    python = fake_python(tmp_path, broken)
    done = run_in(ROOT, f"make setup VENV={tmp_path}/venv PYTHON={python}")
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "venv").exists()


def test_an_unknown_engine_of_the_demo_is_refused_before_any_setup() -> None:
    done = run_in(ROOT, "make demo ENGINE=vlm")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ENGINE is vlm; it may be torch or vllm-cpu" in done.stderr


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run commands in a fresh copy, where each must succeed."""
    folder = copy_to(tmp_path_factory.mktemp("fresh"))

    def run(command: str) -> subprocess.CompletedProcess[str]:
        done = run_in(folder, command)
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    yield run
    shutil.rmtree(folder)  # some gigabytes of packages


@pytest.fixture(scope="module")
def fresh(copied: Run) -> Run:
    """Run commands in a fresh copy that is set up."""
    copied("make setup")
    return copied


@pytest.mark.slow
@pytest.mark.timed
def test_lock_writes_nothing_new_after_a_fresh_setup(fresh: Run) -> None:
    assert "envs/: nothing written" in fresh("make lock").stdout


@pytest.mark.slow
def test_an_engine_environment_needs_its_own_packages_only(copied: Run) -> None:
    copied("python3 -m venv .venv-engine")
    copied(".venv-engine/bin/pip install -r envs/torch.txt")
    copied(".venv-engine/bin/pip install --no-deps --no-build-isolation -e .")
    modules = "refork.data.tables, refork.tasks.prompts, refork.engines"
    copied(f".venv-engine/bin/python -c 'import torch, transformers, {modules}'")
    copied(".venv-engine/bin/pip check")


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.model
@pytest.mark.workflow
@pytest.mark.timeout(1200)
def test_demo_in_a_fresh_copy(fresh: Run) -> None:
    start = time.monotonic()
    done = fresh("make demo")
    taken = time.monotonic() - start
    assert done.stdout.endswith("The report: results/demo/report.html\n")
    assert "<html" in fresh("cat results/demo/report.html").stdout
    assert taken < DEMO_SECONDS

    start = time.monotonic()
    fresh("make demo")
    assert time.monotonic() - start < NOTHING_TO_DO_SECONDS

    again = fresh(".venv/bin/snakemake --cores 2 --configfile config/demo.yaml")
    assert "Nothing to be done" in again.stdout + again.stderr
    assert "cached" in fresh(".venv/bin/refork plan config/demo.yaml").stdout
    stock = json.loads(fresh(".venv/bin/refork noise results/demo --json --variant stock").stdout)
    assert stock["replica"]["flips"] == 0
    assert stock["passes"]["exact"]["cached_share"] == 1
    fp32 = json.loads(fresh(".venv/bin/refork noise results/demo --json --variant fp32").stdout)
    assert fp32["refeed"]["flips"] == fp32["replica"]["flips"] == 0
    fresh(".venv/bin/refork noise results/demo --json")

    passes = json.loads(fresh(".venv/bin/refork agreement results/demo --json").stdout)["passes"]
    by_name = {(row["variant"], row["pass"]): row for row in passes}
    for name in ("replica_shuffled", "refeed", "refeed_shuffled"):
        assert by_name["stock", name]["same_tokens"]["value"] < 1
    for name in ("replica", "replica_shuffled", "replay", "replay_shuffled"):
        invariant = by_name["invariant", name]
        assert invariant["same_tokens"]["value"] == invariant["same_outcomes"]["value"] == 1
        assert invariant["same_probes"]["value"] == 1
        assert invariant["changed_credits"]["part"] == invariant["largest_delta"] == 0
    probed = fresh(".venv/bin/refork probe config/demo.yaml --variant invariant --json").stdout
    assert json.loads(probed)["invariant"]["invariant"]
    fresh(".venv/bin/refork probe config/demo.yaml")


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.model
@pytest.mark.workflow
@pytest.mark.timeout(1200)
def test_demo_by_vllm_in_a_fresh_copy(fresh: Run) -> None:
    fresh("make setup-vllm")
    fresh(".venv-vllm/bin/python envs/lock.py --vllm --check")
    start = time.monotonic()
    done = fresh("make demo ENGINE=vllm-cpu")
    assert time.monotonic() - start < VLLM_DEMO_SECONDS
    assert done.stdout.endswith("The report: results/demo-vllm/report.html\n")
    assert "<html" in fresh("cat results/demo-vllm/report.html").stdout

    start = time.monotonic()
    fresh("make demo ENGINE=vllm-cpu")
    assert time.monotonic() - start < NOTHING_TO_DO_SECONDS

    noise = ".venv/bin/refork noise results/demo-vllm --json --variant"
    for variant in ("stock", "filled"):
        told = json.loads(fresh(f"{noise} {variant}").stdout)
        assert told["n_pivots"] > 4
        assert told["passes"]["exact"]["cached_share"] == 1
        assert told["replica"]["flips"] == 0
    agreement = fresh(".venv/bin/refork agreement results/demo-vllm --json").stdout
    by_name = {(row["variant"], row["pass"]): row for row in json.loads(agreement)["passes"]}
    assert len(by_name) == 8
    # The order of requests moves nothing where each step has rows enough.
    for key in (("stock", "replica"), ("filled", "replica"), ("filled", "replica_shuffled")):
        assert by_name[key]["same_tokens"]["value"] == by_name[key]["same_outcomes"]["value"] == 1
        assert by_name[key]["changed_credits"]["part"] == by_name[key]["largest_delta"] == 0

"""What the README and the pages of docs/ tell a reader to type, really runs."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from helpers.repository import BIN, ROOT, copy_to
from refork.study.loading import load_study, merge, read_yaml

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *(ROOT / "config").glob("*.md")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")

MINE = "tests/test_readme.py::test_the_study_of_the_readme"
DEMO = "tests/test_make.py::test_demo_in_a_fresh_copy"
TWO_BY_TWO = "tests/workflow/test_two_by_two.py::test_kernels_feeding_and_order"
ENGINE = "tests/test_make.py::test_an_engine_environment_needs_its_own_packages_only"
# Every command of the pages, and the test that runs it; `.ci/run` runs the tests themselves.
RUN_BY = {
    "make demo": DEMO,
    "make demo ENGINE=vllm-cpu": ("tests/test_make.py::test_demo_by_vllm_in_a_fresh_copy"),
    "make test": ".ci/run",
    "make lock": "tests/test_make.py::test_lock_writes_nothing_new_after_a_fresh_setup",
    ".venv/bin/snakemake --cores 2 --configfile config/demo.yaml": DEMO,
    ".venv/bin/refork noise results/demo --json": DEMO,
    ".venv/bin/refork plan config/demo.yaml": DEMO,
    ".venv/bin/refork probe config/demo.yaml": DEMO,
    "make two-by-two": TWO_BY_TWO,
    ".venv/bin/refork agreement results/two-by-two --markdown": TWO_BY_TWO,
    (
        ".venv/bin/refork questions --count 48 --seed 0 --out config/questions/arithmetic.jsonl"
        " --examples config/questions/arithmetic_examples.yaml"
    ): "tests/cli/test_questions.py::test_the_projects_questions_are_made_anew_byte_for_byte",
    ".venv/bin/snakemake --cores 2 --configfile config/studies/synthetic.yaml": (
        "tests/test_readme.py::test_the_study_without_a_model"
    ),
    ".venv/bin/refork lock config/studies/mine.yaml": MINE,
    ".venv/bin/refork plan config/studies/mine.yaml": MINE,
    ".venv/bin/snakemake --cores 2 --configfile config/studies/mine.yaml": MINE,
    ".venv/bin/refork power STORES --estimators full,forkhmm --samples 5,30 --strides 1,4": (
        "tests/cli/test_power.py::test_the_command_of_the_page"
    ),
    "python3 -m venv .venv-engine": ENGINE,
    ".venv-engine/bin/pip install -r envs/torch.txt": ENGINE,
    ".venv-engine/bin/pip install --no-deps --no-build-isolation -e .": ENGINE,
    ".venv/bin/refork noise primary.json screened.json --format thaw --json": (
        "tests/test_readme.py::test_pooled_records_of_thaw"
    ),
}

OPERATIONS = ".venv-vllm/bin/python -m refork.cli.main operations"
SPEED = "PYTHONPATH=workflow_scripts:tests .venv-vllm/bin/python -m helpers.vllm_speed"
# What needs a GPU, and the test that runs the same on the CPU and on less.
ON_A_GPU = {
    ".venv/bin/refork probe config/studies/replay-noise.yaml": DEMO,
    OPERATIONS: "tests/cli/test_operations.py::test_a_table",
    f"{OPERATIONS} --kernels batch_invariant --only linear --json": (
        "tests/cli/test_operations.py::test_as_json"
    ),
    **{
        f"{SPEED}{model}": (
            "tests/benchmarks/test_vllm_speed.py::test_the_three_ways_do_the_same_work"
        )
        for model in ("", " --model FOLDER")
    },
}
NAMED = RUN_BY | ON_A_GPU


def blocks(language: str, *pages: Path) -> list[str]:
    """Return the fenced blocks of a language, in the order of the pages."""
    return [
        text for page in pages for kind, text in FENCE.findall(page.read_text()) if kind == language
    ]


def commands(*pages: Path) -> list[str]:
    lines = [line for block in blocks("console", *pages) for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def run(command: str, folder: Path) -> str:
    """Run a command of the pages in a copy of the repository, with this Python's environment."""
    words = [
        str(BIN / word.removeprefix(".venv/bin/")) if word.startswith(".venv/bin/") else word
        for word in command.split()
    ]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_every_command_is_run_by_a_named_test() -> None:
    assert set(commands(*PAGES)) == set(NAMED)


@pytest.mark.parametrize(("command", "runner"), NAMED.items(), ids=NAMED)
def test_the_named_test_is_there(command: str, runner: str) -> None:
    path, _, function = runner.partition("::")
    wanted = f"def {function}(" if function else command
    assert wanted in (ROOT / path).read_text()


def test_only_known_kinds_of_blocks() -> None:
    kinds = {kind for page in PAGES for kind, _ in FENCE.findall(page.read_text())}
    assert kinds <= {"console", "yaml", "json"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    local = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("block", blocks("yaml", *PAGES))
def test_config_examples_are_valid(block: str) -> None:
    load_study(merge(read_yaml(ROOT / "config" / "default.yaml"), yaml.safe_load(block)))


@pytest.mark.workflow
@pytest.mark.slow
def test_the_study_of_the_readme(tmp_path: Path) -> None:
    readme = ROOT / "README.md"
    folder = copy_to(tmp_path)
    (questions,) = blocks("json", readme)
    (folder / "my-questions.jsonl").write_text(questions)
    study = yaml.safe_load(blocks("yaml", readme)[0])
    study |= {"model": {}, "engine": {"kind": "synthetic"}}
    (folder / "config" / "studies").mkdir(exist_ok=True)
    (folder / "config" / "studies" / "mine.yaml").write_text(yaml.safe_dump(study))

    for command in commands(readme):
        if RUN_BY[command] == MINE:
            run(command, folder)

    results = folder / "results" / "mine"
    assert (results / "report.html").is_file()
    named = re.findall(r"^\| `(\w+/[\w.]*)` \|", readme.read_text(), re.MULTILINE)
    assert named
    assert [name for name in named if not (results / "base" / name).exists()] == []
    noise = json.loads(run(".venv/bin/refork noise results/mine --json", folder))
    assert noise["n_problems"] <= 2


@pytest.mark.workflow
@pytest.mark.slow
def test_the_study_without_a_model(tmp_path: Path) -> None:
    folder = copy_to(tmp_path)
    run(".venv/bin/snakemake --cores 2 --configfile config/studies/synthetic.yaml", folder)
    noise = json.loads(run(".venv/bin/refork noise results/synthetic --json", folder))
    assert noise["replica"]["flips"] == 0
    assert noise["refeed"]["flips"] > 0
    assert noise["clustered_t"] > 2


SHARED = ROOT.parent / "shared" / "data" / "replay-noise"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published records lie outside the repository")
def test_pooled_records_of_thaw() -> None:
    command = ".venv/bin/refork noise primary.json screened.json --format thaw --json"
    assert json.loads(run(command, SHARED))["n_pivots"] == 1567

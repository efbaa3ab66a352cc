"""With the literal `snakemake --cores 2`: what a change runs again; changing back runs nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from helpers.project import Project, contents

pytestmark = pytest.mark.workflow

SHARDS = 2
PASSES = 3
REPORT = {"measure_noise": 1, "report": 1}
GRADED = {"grade_outcomes": SHARDS, **REPORT}
RESAMPLED = {"resample": SHARDS * PASSES, **GRADED}


@pytest.fixture(autouse=True)
def as_before(finished: Project) -> Iterator[None]:
    """Change back, and see that nothing runs and every result is what it was."""
    before = contents(finished.results)
    yield
    finished.configure()
    assert finished.succeed() == {}
    after = contents(finished.results)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("overrides", "jobs"),
    [
        ({"pivots": {"margin": 0.4}}, {"extract_pivots": SHARDS, **RESAMPLED}),
        (
            {"engine": {"dtype": "float32"}},
            {"sample_rollouts": SHARDS, "extract_pivots": SHARDS, **RESAMPLED},
        ),
        ({"grading": {"grader": "pattern", "pattern": "answer is (.*?)[.]"}}, GRADED),
        ({"report": {"palette": "deep"}}, {"report": 1}),
        ({"resources": {"resample": {"mem_mb": 1500}}}, {}),
        ({"engine": {"processes": 3}}, {}),
    ],
    ids=["margin", "dtype", "grader", "colour", "memory", "processes"],
)
def test_a_change_runs_its_stage_and_those_below(
    finished: Project, overrides: dict[str, Any], jobs: dict[str, int]
) -> None:
    finished.configure(**overrides)
    assert finished.succeed() == jobs
    assert finished.succeed() == {}


def test_raising_k_samples_only_the_new_block(finished: Project) -> None:
    old = {
        path: path.stat().st_mtime_ns for path in finished.results.glob("resample/*/*/*.parquet")
    }
    finished.configure(resample={"continuations": 8})
    assert finished.succeed() == RESAMPLED
    new = set(finished.results.glob("resample/*/*/*.parquet")) - set(old)
    assert {path.parent.name for path in new} == {"draws-0004-0007"}
    assert {path: path.stat().st_mtime_ns for path in old} == old


def test_the_number_of_cores_runs_nothing(finished: Project) -> None:
    assert finished.succeed("--cores", "1") == {}


def test_a_comment_in_a_script_a_rule_or_the_package_runs_nothing(finished: Project) -> None:
    for name in ("resample.py", "refork/stages/resample.py"):
        path = finished.folder / "workflow_scripts" / name
        path.write_text(path.read_text() + "# a comment\n")
    rule = finished.folder / "rules" / "resample.smk"
    rule.write_text("# a comment\n" + rule.read_text())
    assert finished.succeed() == {}


def test_readable_names_follow_the_config(finished: Project) -> None:
    report = finished.results / "small" / "report.html"
    first = report.resolve()
    finished.configure(report={"title": "Another title"})
    finished.succeed()
    assert report.resolve() != first
    assert "Another title" in report.read_text()
    finished.configure()
    assert finished.succeed() == {}
    assert report.resolve() == first


def test_a_job_and_its_progress_name_variant_pass_shard_and_draws(finished: Project) -> None:
    finished.configure(
        variants={"v": {"pivots": {"margin": 0.37}}, "w": {"pivots": {"margin": 0.33}}}
    )
    run = finished.run()
    assert run.status == 0, run.words
    for name in ("v", "w"):
        assert f"Continuations of {name}: pass refeed, shard-0001, draws " in run.words
        assert f"\n{name} refeed shard-0001 draws 0-" in run.words

"""A study with outcome curves, end to end, and what a change runs again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from helpers.project import QUESTIONS, Project, contents
from helpers.repository import copy_to
from refork.data.schemas import PIVOT_KEY
from refork.data.tuning_record import read_tuning
from refork.study.loading import merge

pytestmark = pytest.mark.workflow

SHARDS = 2
PASSES = 3
ASKED = 4  # questions with curves, so that both shards have some
DRAWS, BLOCK = 4, 2
CURVES: dict[str, Any] = {
    "curves": {
        "questions": ASKED,
        "stride": 2,
        "continuations": DRAWS,
        "draw_block": BLOCK,
        "max_branches": 5,
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 48,
    },
    "smoothing": {"candidates": ["forkhmm", "kernel"], "folds": 2, "curves_drawn": 50},
}
SMOOTHED = {"smooth_curves": SHARDS, "report": 1}
TUNED = {"tune_smoothing": 1, **SMOOTHED}
GRADED = {"grade_outcomes": SHARDS, "estimate_curves": SHARDS, **TUNED}


def configure(project: Project, **overrides: Any) -> None:
    """Write the study with curves, with overrides of its keys."""
    project.configure(**merge(CURVES, overrides))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy in which the study has run without curves, then with them."""
    project = Project(copy_to(tmp_path_factory.mktemp("curves") / "project"))
    project.configure()
    project.ask(QUESTIONS)
    project.succeed()
    configure(project)
    jobs = project.succeed()
    assert jobs == {"lay_grid": SHARDS, "resample": SHARDS * DRAWS // BLOCK, **GRADED}
    return project


@pytest.fixture
def changed_back(finished: Project) -> Iterator[Project]:
    """Change back, and see that nothing runs and every result is what it was."""
    before = contents(finished.results)
    yield finished
    configure(finished)
    assert finished.succeed() == {}
    after = contents(finished.results)
    assert {name: after[name] for name in before} == before


def table(project: Project, stage: str, pattern: str = "shard-????.parquet") -> pa.Table:
    """Read the shards of a stage of the study by its readable name."""
    folder = project.results / "small" / "base" / stage
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob(pattern))])


def test_every_drawn_position_has_its_draws_and_every_curve_adds_to_one(finished: Project) -> None:
    grid, draws, curves = (
        table(finished, name) for name in ("lay_grid", "estimate_curves", "smooth_curves")
    )
    drawn = grid.filter(grid.column("drawn"))
    key = [field.name for field in PIVOT_KEY]
    assert set(drawn.column("question_id").to_pylist()) == {q["id"] for q in QUESTIONS[:ASKED]}
    counts = draws.group_by(key).aggregate([("draw", "count"), ("weight", "sum")]).to_pylist()
    assert {tuple(row[name] for name in key) for row in counts} == {
        tuple(row[name] for name in key) for row in drawn.to_pylist()
    }
    assert {(row["draw_count"], row["weight_sum"]) for row in counts} == {(DRAWS, DRAWS)}
    sums = curves.group_by(key).aggregate([("share", "sum")]).column("share_sum").to_pylist()
    assert sums == pytest.approx([1.0] * len(sums))
    assert pc.all(pc.less_equal(curves.column("low"), curves.column("high"))).as_py()


def test_draws_spread_over_branches_that_the_grid_knows(finished: Project) -> None:
    place = ["question_id", "rollout", "position"]
    branches = {
        tuple(row[name] for name in place): len(row["tokens"])
        for row in table(finished, "lay_grid").to_pylist()
    }
    drawn = table(finished, "estimate_curves").to_pylist()
    assert all(row["branch"] < branches[tuple(row[name] for name in place)] for row in drawn)
    assert len({row["branch"] for row in drawn}) > 1


def test_what_a_study_with_curves_leaves_can_be_read(finished: Project) -> None:
    base = finished.results / "small" / "base"
    tuning = read_tuning(base / "tune_smoothing" / "tuning.json")
    assert (tuning.estimator, tuning.why) == ("forkhmm", "given")
    assert [score.estimator for score in tuning.candidates] == ["forkhmm", "kernel"]
    assert table(finished, "smooth_curves", "*.steps.parquet").num_rows > 0
    assert set(table(finished, "grade_outcomes.curve").column("pass").to_pylist()) == {
        None,
        "curve",
    }
    assert (base / "resample" / "curve" / "draws-0002-0003").is_dir()
    assert "curve" in (finished.results / "small" / "report.html").read_text()


@pytest.mark.parametrize(
    ("overrides", "jobs"),
    [
        ({"smoothing": {"level": 0.9}}, SMOOTHED),
        ({"smoothing": {"estimator": "auto"}}, TUNED),
        (
            {"pivots": {"margin": 0.4}},
            {
                "extract_pivots": SHARDS,
                "resample": SHARDS * PASSES,
                "grade_outcomes": SHARDS,
                "measure_noise": 1,
                "report": 1,
            },
        ),
    ],
    ids=["level", "estimator", "margin"],
)
def test_a_change_runs_its_stages_and_those_below(
    changed_back: Project, overrides: dict[str, Any], jobs: dict[str, int]
) -> None:
    configure(changed_back, **overrides)
    assert changed_back.succeed() == jobs


def test_raising_the_draws_samples_only_the_new_block(changed_back: Project) -> None:
    old = set(changed_back.results.glob("resample/*/*/*.parquet"))
    times = {path: path.stat().st_mtime_ns for path in old}
    configure(changed_back, curves={"continuations": DRAWS + BLOCK})
    assert changed_back.succeed() == {"resample": SHARDS, **GRADED}
    new: set[Path] = set(changed_back.results.glob("resample/*/*/*.parquet")) - old
    assert {path.parent.name for path in new} == {"draws-0004-0005"}
    assert {path: path.stat().st_mtime_ns for path in old} == times


def test_every_branch_may_have_its_own_draws(changed_back: Project) -> None:
    configure(changed_back, curves={"branches": "each", "questions": 1, "stride": 6})
    changed_back.succeed()
    draws = table(changed_back, "estimate_curves")
    place = ["question_id", "rollout", "position"]
    weights = draws.group_by(place).aggregate([("weight", "sum"), ("draw", "count")]).to_pylist()
    assert [row["weight_sum"] for row in weights] == pytest.approx(
        [row["draw_count"] for row in weights]
    )
    of_branch = draws.group_by([*place, "branch"]).aggregate([("draw", "count")])
    assert set(of_branch.column("draw_count").to_pylist()) == {DRAWS}

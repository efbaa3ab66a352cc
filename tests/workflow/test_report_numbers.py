"""The report's numbers, counted again from the study's tables without the package's statistics."""

import csv
from collections import defaultdict
from typing import Any

import pyarrow.parquet as pq
import pytest

from helpers.project import Project

pytestmark = pytest.mark.workflow

MARGINS = {"wide": 1.0, "narrow": 0.45}
PASSES = ("exact", "replica", "refeed")
Pivot = tuple[str, int, int]


@pytest.fixture(scope="module")
def study(finished: Project) -> Project:
    """Two variants of unlike pivots, so that one cannot pass for the other."""
    finished.configure(
        rollouts={"count": 4},
        variants={name: {"pivots": {"margin": margin}} for name, margin in MARGINS.items()},
    )
    finished.succeed()
    return finished


def shards(study: Project, variant: str, stage: str) -> list[dict[str, Any]]:
    files = sorted((study.results / "small" / variant).glob(f"{stage}/**/shard-*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def pivot(row: dict[str, Any]) -> Pivot:
    return row["question_id"], row["rollout"], row["position"]


def right_counts(study: Project, variant: str) -> dict[str, dict[Pivot, int]]:
    """Count right outcomes, actual arm less alternative, by pass and pivot."""
    counts: dict[str, dict[Pivot, int]] = {name: defaultdict(int) for name in PASSES}
    for row in shards(study, variant, "grade_outcomes"):
        if row["pass"] is not None:
            sign = 1 if row["arm"] == "actual" else -1
            counts[row["pass"]][pivot(row)] += sign * row["correct"]
    return counts


def table(study: Project, name: str, variant: str) -> list[dict[str, str]]:
    with (study.results / "small" / "tables" / f"{name}.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["variant"] == variant]


def sign(count: int) -> int:
    return (count > 0) - (count < 0)


def test_the_variants_can_be_told_apart(study: Project) -> None:
    pivots = [len(shards(study, name, "extract_pivots")) for name in MARGINS]
    assert pivots[0] > pivots[1] > 0


@pytest.mark.parametrize("variant", MARGINS)
def test_flips(study: Project, variant: str) -> None:
    counts = right_counts(study, variant)
    places = [pivot(row) for row in shards(study, variant, "extract_pivots")]
    eligible = [place for place in places if any(counts[name][place] for name in PASSES)]
    flips = {
        name: sum(sign(counts[name][p]) != sign(counts["exact"][p]) for p in eligible)
        for name in ("replica", "refeed")
    }
    shown = {row["quantity"]: row["value"] for row in table(study, "noise", variant)}
    assert int(shown["n_pivots"]) == len(places)
    assert int(shown["eligible"]) == len(eligible) > 0
    assert {name: int(shown[f"{name}/flips"]) for name in flips} == flips
    excess = 100 * (flips["refeed"] - flips["replica"]) / len(eligible)
    assert float(shown["excess_pp"]) == pytest.approx(excess)
    page = (study.results / "small" / "report.html").read_text()
    assert f"of the {len(eligible)} eligible pivots" in page


@pytest.mark.parametrize("variant", MARGINS)
def test_tokens_and_outcomes_of_a_pass(study: Project, variant: str) -> None:
    tokens: dict[str, dict[Any, list[int]]] = {name: {} for name in PASSES}
    for name in PASSES:
        for row in shards(study, variant, f"resample/{name}"):
            if row["draw"] is not None:
                tokens[name][*pivot(row), row["arm"], row["draw"]] = row["token_ids"]
    shown = {row["name"]: row for row in table(study, "passes", variant)}
    for name in ("replica", "refeed"):
        same = [tokens[name][draw] == ids for draw, ids in tokens["exact"].items()]
        assert int(shown[name]["continuations"]) == len(same)
        assert float(shown[name]["same_tokens"]) == pytest.approx(sum(same) / len(same))

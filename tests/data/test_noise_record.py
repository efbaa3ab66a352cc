"""The noise record against the published runs, and its form where quantities do not exist."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from refork.data.credits import align_passes
from refork.data.noise_record import RECORD_KEYS, ComparedPasses, noise_record, noise_table
from refork.data.schemas import CREDITS, NOISE
from refork.data.thaw import read_thaw
from refork.errors import ReforkError
from refork.stats.noise import measure

RUNS = {"main": ("primary", "screened"), "k8": ("k8",), "grpo": ("grpo",)}
NAMES = ComparedPasses("exact", "refeed", "replica")


def record_of(credits: pa.Table) -> dict[str, Any]:
    aligned = align_passes(credits, ["exact", "replica", "refeed"])
    passes = [aligned.passes[name] for name in ("exact", "refeed", "replica")]
    return noise_record(measure(aligned.problem, aligned.margin, *passes), NAMES)


def run_record(published: Path, run: str) -> dict[str, Any]:
    return record_of(read_thaw([published / f"{name}.json" for name in RUNS[run]]))


@pytest.fixture(scope="module")
def published(shared: Path) -> Path:
    return shared / "data" / "replay-noise"


def as_published(record: dict[str, Any]) -> dict[str, Any]:
    """Spell a record as the published values are spelt."""
    bias, passes, problems = record["bias"], record["passes"], record["problems"]
    spelt = {
        "n_records": record["n_pivots"],
        "n_problems": record["n_problems"],
        "common_set": {"refeed": record["refeed"], "floor": record["replica"]},
        "exact1_conditioned": {
            "refeed": record["exact_nonzero_flips"]["refeed"],
            "floor": record["exact_nonzero_flips"]["replica"],
        },
        "eligibility_sources": {
            key: value
            for key, value in record["eligibility_sources"].items()
            if key != "only_refeed_and_exact2_nonzero"
        },
        "bias": {
            "mean_diff": bias["mean"],
            "t": bias["t"],
            "ci95": [bias["low"], bias["high"]],
            "n": bias["n"],
        },
        "mcnemar": {
            "b_refeed_only": record["mcnemar"]["b"],
            "c_floor_only": record["mcnemar"]["c"],
            "z": record["mcnemar_z"],
        },
        "clustered": {
            "n_problems": problems["eligible"],
            "mean_excess": record["clustered_mean"],
            "t": record["clustered_t"],
            "problems_refeed_worse": problems["worse"],
            "problems_floor_worse": problems["better"],
            "problems_equal": problems["equal"],
        },
        "critical_token_jaccard": {
            f"thr_{threshold}": {
                "n_exact1": part["n_reference"],
                "refeed_vs_exact1": part["refeed"],
                "replica_vs_exact1": part["replica"],
            }
            for threshold, part in record["jaccard"].items()
        },
        **record["margin_buckets"],
        "greedy_probe": record["probes"],
    }
    if passes["exact"]["instrumented"]:
        spelt["cache_instrumentation"] = {
            "n_instrumented": passes["exact"]["instrumented"],
            "exact1_ok_rate": passes["exact"]["cached_share"],
            "exact2_ok_rate": passes["replica"]["cached_share"],
        }
    return spelt


@pytest.mark.parametrize("run", RUNS)
def test_published_runs_come_out_to_the_last_digit(published: Path, run: str) -> None:
    golden = json.loads((published / "golden.json").read_text())
    assert as_published(run_record(published, run)) == golden[run]


def test_the_main_run_beyond_the_published_values(published: Path) -> None:
    record = run_record(published, "main")
    assert round(record["excess_pp"], 1) == 18.7
    assert record["exact_nonzero"] == {"n": 515, "refeed": 112, "replica": 52}
    sources = record["eligibility_sources"]
    assert sources["only_refeed_and_exact2_nonzero"] == 26
    assert sum(sources.values()) == record["eligible"]
    assert {name: facts["role"] for name, facts in record["passes"].items()} == {
        "exact": "reference",
        "replica": "floor",
        "refeed": "treatment",
    }


def numbers(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in numbers(value)]
    return [tree]


def test_what_does_not_exist_is_null_with_a_reason() -> None:
    record = record_of(CREDITS.empty_table())
    assert record["clustered_t"] is None
    assert record["reasons"]["clustered_t"] == "no problems with eligible pivots"
    assert record["jaccard"]["0.5"]["refeed"] is None
    assert record["reasons"]["jaccard/0.5/refeed"] == "no critical token in either pass"
    assert record["eligible"] == record["refeed"]["flips"] == 0
    nulls = [leaf for leaf in numbers(record) if leaf is None]
    assert len(nulls) == len(record["reasons"])
    assert not any(isinstance(leaf, float) and math.isnan(leaf) for leaf in numbers(record))
    json.dumps(record, allow_nan=False)


def test_the_flat_table_holds_every_number_or_its_reason() -> None:
    record = record_of(CREDITS.empty_table())
    table = noise_table({NAMES.label: record})
    assert table.schema == NOISE
    rows = {row["quantity"]: row for row in table.to_pylist()}
    assert rows["eligible"]["value"] == 0.0
    assert rows["excess_pp"] == {
        "comparison": "refeed/replica",
        "quantity": "excess_pp",
        "value": None,
        "reason": "no eligible pivots",
    }
    assert all((row["value"] is None) == (row["reason"] is not None) for row in rows.values())
    assert "passes/exact/role" not in rows


def test_other_passes_keep_their_names() -> None:
    empty = CREDITS.empty_table()
    aligned = align_passes(empty, ["base", "again", "changed"])
    passes = [aligned.passes[name] for name in ("base", "changed", "again")]
    noise = measure(aligned.problem, aligned.margin, *passes, critical=[0.25], margin_split=0.5)
    record = noise_record(noise, ComparedPasses("base", "changed", "again"))
    assert {"changed", "again"} < set(record)
    assert set(record["jaccard"]) == {"0.25"}
    assert set(record["margin_buckets"]) == {"margin_lt_0.5", "margin_ge_0.5"}
    assert "only_again_nonzero" in record["eligibility_sources"]


def test_a_pass_does_not_stand_beside_itself() -> None:
    with pytest.raises(ReforkError, match="exact, refeed, exact: they must be three passes"):
        ComparedPasses("exact", "refeed", "exact")


def test_no_pass_may_be_named_like_a_key_of_the_record() -> None:
    keys = set(record_of(CREDITS.empty_table())) - {NAMES.treatment, NAMES.floor}
    assert keys <= RECORD_KEYS

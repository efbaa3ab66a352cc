"""Passes against their reference: rates counted again by hand, intervals, what is missing."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refork.errors import ReforkError
from refork.report.agreement import Agreement, agreement_rows, find_study
from refork.report.pass_rows import pass_rows
from refork.report.study_data import StudyData, VariantData
from refork.stats.bootstrap import Interval
from refork.stats.missing import Missing

KEY = ("question_id", "rollout", "position", "arm", "draw")


def by_name(variant: VariantData) -> dict[str, Agreement]:
    return {row.name: row for row in agreement_rows(variant)}


def draws(rows: list[dict[str, Any]], name: str, value: str) -> dict[tuple[Any, ...], Any]:
    return {
        tuple(row[key] for key in KEY): row[value]
        for row in rows
        if row["pass"] == name and row["draw"] is not None
    }


@pytest.mark.parametrize("name", ["replica", "refeed", "refeed_shuffled"])
def test_tokens_and_outcomes_counted_again(study: StudyData, name: str) -> None:
    variant = study.variants[0]
    row = by_name(variant)[name]
    for rate, table, value in (
        (row.same_tokens, variant.continuations, "token_ids"),
        (row.same_outcomes, variant.outcomes, "outcome"),
    ):
        rows = table.to_pylist()
        reference, other = draws(rows, "exact", value), draws(rows, name, value)
        assert rate.whole == len(reference) == len(other) > 0
        assert rate.part == sum(reference[key] == other[key] for key in reference)
        assert rate.problems == len({key[0] for key in reference})
        assert isinstance(rate.interval, Interval)
        assert rate.value == rate.part / rate.whole
        assert rate.interval.low < rate.value < rate.interval.high


def test_credits_counted_again(study: StudyData) -> None:
    variant = study.variants[0]
    right: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    for row in variant.outcomes.to_pylist():
        if row["pass"] is not None:
            pivot = row["question_id"], row["rollout"], row["position"]
            right[row["pass"]][pivot] += row["correct"] * (1 if row["arm"] == "actual" else -1)
    exact, refeed = right["exact"], right["refeed"]
    eligible = [pivot for pivot in exact if exact[pivot] or refeed[pivot]]
    found = by_name(variant)["refeed"].changed_credits
    assert found.whole == len(eligible)
    assert found.part == sum(exact[pivot] != refeed[pivot] for pivot in eligible)
    assert found.problems == len({pivot[0] for pivot in eligible})


def test_probes_counted_again(study: StudyData) -> None:
    variant = study.variants[0]
    tokens: dict[Any, dict[Any, Any]] = defaultdict(dict)
    firsts: dict[Any, dict[Any, float]] = defaultdict(dict)
    for row in variant.continuations.to_pylist():
        if row["draw"] is None:
            pivot = row["question_id"], row["rollout"], row["position"]
            tokens[row["pass"]][*pivot, row["arm"]] = row["token_ids"]
            firsts[row["pass"]][*pivot, row["arm"]] = row["first_logprob"]
    pivots = {key[:3] for key in tokens["exact"]}
    found = by_name(variant)["refeed"]
    assert found.same_probes.whole == len(pivots)
    assert found.same_probes.part == sum(
        all(tokens["exact"][*p, arm] == tokens["refeed"][*p, arm] for arm in ("actual", "alt"))
        for p in pivots
    )
    largest = max(abs(firsts["exact"][key] - firsts["refeed"][key]) for key in firsts["exact"])
    assert found.largest_delta == pytest.approx(largest)


def test_the_report_says_the_same(study: StudyData) -> None:
    for variant in study.variants:
        shown = {row.name: row for row in pass_rows(variant)[1:]}
        for name, row in by_name(variant).items():
            assert row.same_tokens.value == shown[name].same_tokens
            assert row.same_outcomes.value == shown[name].same_outcomes
            assert row.changed_credits.part == shown[name].credit_changed
            assert row.changed_credits.whole == shown[name].credit_eligible


def test_full_agreement_gets_the_exact_bound(study: StudyData) -> None:
    for row in agreement_rows(study.variants[1]):
        assert row.same_tokens.value == 1
        assert row.changed_credits.value == 0
        assert row.largest_delta == 0
        low, high = 0.05 ** (1 / 12), 1.0
        assert row.same_tokens.interval == Interval(pytest.approx(low), high, one_sided=True)  # type: ignore[arg-type]


def test_state_and_order_come_from_the_settings(study: StudyData) -> None:
    rows = by_name(study.variants[0])
    assert [(row.state, row.shuffled) for row in rows.values()] == [
        ("snapshot", False),
        ("prefill", False),
        ("snapshot", True),
        ("prefill", True),
    ]
    refeed = rows["refeed"]
    assert refeed.plain
    assert not replace(refeed, settings={**refeed.settings, "seed": 4}).plain
    assert not replace(refeed, settings={**refeed.settings, "batch_rows": 8}).plain


def test_without_pivots_everything_is_missing(empty_study: StudyData) -> None:
    rows = agreement_rows(empty_study.variants[0])
    assert len(rows) == 4
    for row in rows:
        for rate, of_what in (
            (row.same_tokens, "continuations"),
            (row.same_outcomes, "outcomes"),
            (row.changed_credits, "pivots with a credit"),
            (row.same_probes, "greedy probes"),
        ):
            assert isinstance(rate.value, Missing)
            assert rate.interval == Missing(f"no {of_what}")
            assert rate.problems == 0
        assert row.largest_delta is None


def test_a_folder_that_is_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match="not the folder of a study that was run; give results/S"):
        find_study(tmp_path)
    with pytest.raises(ReforkError, match="absent: no such folder; give results/STUDY"):
        find_study(tmp_path / "absent")


def test_a_study_that_is_not_finished_is_said(tmp_path: Path) -> None:
    stage = tmp_path / "report" / "0123"
    stage.mkdir(parents=True)
    (stage / "stage.json").write_text("{}")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").symlink_to(stage / "report.html")
    with pytest.raises(ReforkError, match="mine: the study is not finished"):
        find_study(tmp_path / "mine")

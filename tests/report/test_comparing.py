"""Passes side by side: fates of credits, agreement, the noise table."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from refork.report.collect import resumes_by
from refork.report.frames import CROSSING, KEPT, REVERSAL, comparison_frame, credit_frames
from refork.report.noise_rows import missing_reasons, noise_rows
from refork.report.pass_rows import pass_rows
from refork.report.study_data import StudyData


@pytest.mark.parametrize("number", [0, 1])
def test_figures_count_what_the_noise_record_counts(study: StudyData, number: int) -> None:
    for variant in study.variants:
        summary = variant.comparisons[number]
        frame = comparison_frame(credit_frames(variant), summary)
        for role in ("treatment", "floor"):
            fates = frame.loc[frame["role"] == role, "fate"].value_counts()
            flips = summary.flips(role)
            assert fates.sum() == summary.eligible == flips["n"]
            assert fates.get(CROSSING, 0) == flips["zero_crossings"]
            assert fates.get(REVERSAL, 0) == flips["polarity_reversals"]


def test_a_pass_keeps_every_sign_of_its_own(study: StudyData) -> None:
    frames = credit_frames(study.variants[0])
    assert set(frames.fates("exact", "exact")) == {KEPT}
    assert list(frames.credit.columns) == [item["name"] for item in study.variants[0].passes]


def test_signs_are_taken_on_counts(study: StudyData) -> None:
    variant = study.variants[0]
    blurred = pc.add(variant.credits["credit"], 1e-12)
    place = variant.credits.schema.get_field_index("credit")
    other = replace(variant, credits=variant.credits.set_column(place, "credit", blurred))
    assert credit_frames(other).sign.equals(credit_frames(variant).sign)


def test_agreement_of_a_noisy_and_of_a_quiet_variant(study: StudyData) -> None:
    noisy, quiet = (pass_rows(variant) for variant in study.variants)
    reference, replica, refeed = noisy[:3]
    assert reference.is_reference
    assert reference.same_tokens is None
    assert not reference.agrees
    assert replica.same_tokens is not None
    assert refeed.same_tokens is not None
    assert 0 < refeed.same_tokens < replica.same_tokens < 1
    assert refeed.same_tokens == refeed.same_outcomes  # by construction
    assert refeed.fidelity == pytest.approx(0.031)
    assert refeed.cached is None
    assert replica.cached == 1
    assert all(row.agrees and row.credit_changed == 0 for row in quiet[1:])


def test_a_state_that_is_left_to_the_engine_is_shown_settled(study: StudyData) -> None:
    variant = study.variants[0]
    passes = [{**item, "state": "exact"} for item in variant.settings["passes"][:2]]
    settings = {**variant.settings, "passes": passes}
    states = {"exact": "decode_replay", "replica": "decode_replay"}
    left = replace(variant, settings=settings, states=states)
    assert [item["state"] for item in left.passes] == ["decode_replay"] * 2
    assert [row.state for row in pass_rows(left)] == ["decode_replay"] * 2


@pytest.mark.parametrize(
    ("block_size", "engine", "words"),
    [
        (1, {}, ""),
        (16, {"vllm": {"tail": "prefill"}}, "blocks of 16 tokens; what lies behind the last"),
        (32, {"vllm": {"tail": "decode"}}, "the last of them is fed again token by token"),
    ],
)
def test_how_an_engine_resumes_is_said(block_size: int, engine: dict[str, Any], words: str) -> None:
    lock = {"engine": {"block_size": block_size}}
    said = resumes_by({"lock": lock, "settings": {"engine": engine}})
    assert words in said
    assert bool(said) == (block_size > 1)


def test_changed_credits_are_counted_among_pivots_with_a_credit(study: StudyData) -> None:
    variant = study.variants[0]
    credit = credit_frames(variant).credit
    with_credit = (credit["exact"] != 0) | (credit["refeed"] != 0)
    row = next(row for row in pass_rows(variant) if row.name == "refeed")
    assert row.credit_eligible == np.count_nonzero(with_credit)
    assert row.credit_changed == np.count_nonzero(credit["exact"] != credit["refeed"])


def test_the_noise_table_has_the_floor_beside_every_rate(study: StudyData) -> None:
    variant = study.variants[0]
    rows = {row.label: row for row in noise_rows(variant)}
    summary = variant.comparisons[0]
    flips, floor = summary.flips("treatment")["flips"], summary.flips("floor")["flips"]
    treated, floored = rows["Sign flips"].cells[0].texts
    assert treated.startswith(f"{flips} (")
    assert floored.startswith(f"{floor} (")
    assert len(rows["Jaccard of tokens with |credit| ≥ 0.5"].cells[1].texts) == 2
    assert missing_reasons(list(rows.values())) == []


def test_every_empty_cell_of_the_noise_table_has_a_reason(empty_study: StudyData) -> None:
    rows = noise_rows(empty_study.variants[0])
    for row in rows:
        for cell in row.cells:
            assert ("–" in cell.texts) == bool(cell.reasons)
    assert any("no eligible pivots" in line for line in missing_reasons(rows))


def test_without_comparisons_there_is_no_table(study: StudyData) -> None:
    assert noise_rows(replace(study.variants[0], noise={"comparisons": []})) == []

"""The sentence that answers a study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refork.data.noise_record import ComparedPasses
from refork.data.thaw import read_thaw
from refork.report.answer import answer
from refork.report.study_data import StudyData, VariantData
from refork.report.summary import Summary
from refork.stages.measure_noise import compare_passes


def changed(summary: Summary, **values: Any) -> Summary:
    return Summary({**summary.record, **values}, summary.names)


@pytest.fixture
def variant(study: StudyData) -> VariantData:
    return study.variants[0]


@pytest.fixture
def summary(variant: VariantData) -> Summary:
    return variant.comparisons[0]


def test_the_published_main_run_in_words(variant: VariantData, shared: Path) -> None:
    files = [shared / "data" / "replay-noise" / f"{name}.json" for name in ("primary", "screened")]
    names = ComparedPasses("exact", "refeed", "replica")
    record = compare_passes(read_thaw(files), names, [0.5, 0.75], 0.3)
    assert answer(variant, Summary.of(record)).replace("\u202f", " ") == (
        "Re-feeding the prefix changes the sign of credit at 34 % of the 636 eligible pivots "
        "(190 to or from 0, 25 reversed); 15 % already change in an identical replica: "
        "an excess of 19 points pooled, 17 by problem, t = 5.5 over 40 problems."
    )


def test_no_flip_is_said_as_such(study: StudyData) -> None:
    quiet = study.variants[1]
    assert answer(quiet, quiet.comparisons[0]).startswith(
        "No flip: re-feeding the prefix changes the sign of credit at none of the "
    )
    assert answer(quiet, changed(quiet.comparisons[0], eligible=1)) == (
        "No flip: re-feeding the prefix keeps the sign of credit at the one eligible pivot, "
        "and so does an identical replica."
    )


def test_no_pivot_and_no_eligible_pivot(variant: VariantData, summary: Summary) -> None:
    assert answer(variant, changed(summary, n_pivots=0)).startswith("Nothing was measured")
    assert answer(variant, changed(summary, eligible=0)).startswith("Nothing can flip: credit is 0")


def test_a_quantity_that_is_null_comes_with_its_reason(
    variant: VariantData, summary: Summary
) -> None:
    reasons = {"clustered_mean": "no problems", "clustered_t": "one of the problems: no spread"}
    no_t = changed(summary, clustered_t=None, reasons=reasons)
    assert "(no t: one of the problems: no spread)" in answer(variant, no_t)
    nothing = changed(summary, clustered_mean=None, clustered_t=None, reasons=reasons)
    assert "(none by problem: no problems)" in answer(variant, nothing)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (0.0, "no excess pooled"),
        (1.0, "an excess of 1 point pooled"),
        (-2.0, "an excess of −2 points pooled"),
        (0.26, "an excess of 0.3 points pooled"),
        (18.7, "an excess of 19 points pooled"),
    ],
)
def test_the_excess_is_said_in_points(
    variant: VariantData, summary: Summary, points: float, words: str
) -> None:
    assert words in answer(variant, changed(summary, excess_pp=points))


def test_a_floor_that_is_re_fed_too(variant: VariantData, summary: Summary) -> None:
    passes = [{**item, "state": "prefill"} for item in variant.passes]
    fed = replace(variant, settings={**variant.settings, "passes": passes})
    assert "already change in a re-fed pass" in answer(fed, summary)

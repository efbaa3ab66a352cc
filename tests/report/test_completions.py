"""How completions ended, in the report's words."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from refork.report.completions import Completions, completions
from refork.report.study_data import StudyData, VariantData


def ended(variant: VariantData, outcome: str) -> VariantData:
    """Let every continuation end in one outcome."""
    table = variant.outcomes
    base = pc.is_null(table["position"])
    changed = pc.if_else(base, table["outcome"], pa.scalar(outcome))
    place = table.column_names.index("outcome")
    return replace(variant, outcomes=table.set_column(place, table.schema.field(place), changed))


def test_base_rollouts_are_counted(study: StudyData) -> None:
    variant = study.variants[0]
    rows = [row for row in variant.outcomes.to_pylist() if row["position"] is None]
    found = completions(variant)
    assert found.rollouts == len(rows) == variant.rollouts.num_rows
    assert found.right == sum(row["correct"] for row in rows)
    assert found.truncated == sum(row["outcome"] == "truncated" for row in rows) > 0
    assert f"Of {len(rows)} base rollouts {found.right} are right" in found.in_words


def test_a_study_that_cannot_show_anything_says_so(study: StudyData) -> None:
    cut = completions(ended(study.variants[0], "truncated"))
    assert cut.doubt is not None
    assert cut.doubt.startswith(
        "100\u202f% of the continuations have no answer: 100\u202f% were cut"
    )
    assert "resample.max_tokens" in cut.doubt
    silent = completions(ended(study.variants[0], "other"))
    assert silent.doubt is not None
    assert "100\u202f% say none" in silent.doubt


def test_a_few_without_an_answer_leave_no_doubt() -> None:
    assert Completions(4, 2, 1, 1, 0.2, 0.2).doubt is None
    assert Completions(0, 0, 0, 0, 0.0, 0.0).doubt is None

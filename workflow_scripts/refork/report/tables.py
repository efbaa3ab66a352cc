"""The tables of the report as files: what the page shows, for programs to read."""

from dataclasses import asdict, fields
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from refork.data.noise_record import noise_table
from refork.report.marked import MarkedRollout
from refork.report.pass_rows import PassRow, pass_rows
from refork.report.provenance import StageCost, stage_costs
from refork.report.study_data import StudyData

_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_SHOWN_PIVOT = pa.schema(
    [
        pa.field("variant", pa.string(), nullable=False),
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("rollout", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("token", pa.string(), nullable=False),
        pa.field("alternative", pa.string(), nullable=False),
        pa.field("margin", pa.float64(), nullable=False),
        pa.field("pass", pa.string(), nullable=False),
        pa.field("credit", pa.float64(), nullable=False),
        pa.field("fate", pa.string(), nullable=False),
    ]
)


def report_tables(study: StudyData, marked: MarkedRollout | None) -> dict[str, pa.Table]:
    """Return every table by its name: noise, passes, stages and the pivots of the shown rollout."""
    rows = [row for variant in study.variants for row in pass_rows(variant)]
    costs = [cost for variant in study.variants for cost in stage_costs(variant)]
    return {
        "noise": _noise(study),
        "passes": pa.Table.from_pylist([asdict(row) for row in rows], schema=flat_schema(PassRow)),
        "stages": pa.Table.from_pylist(
            [asdict(row) for row in costs], schema=flat_schema(StageCost)
        ),
        "rollout_pivots": pa.Table.from_pylist(_shown_pivots(marked), schema=_SHOWN_PIVOT),
    }


def _noise(study: StudyData) -> pa.Table:
    tables = []
    for variant in study.variants:
        records = {summary.names.label: summary.record for summary in variant.comparisons}
        table = noise_table(records)
        names = pa.array([variant.name] * table.num_rows, pa.string())
        tables.append(table.add_column(0, pa.field("variant", pa.string(), nullable=False), names))
    return pa.concat_tables(tables)


def flat_schema(record: type) -> pa.Schema:
    """Return the schema of a flat dataclass: `X | None` is a nullable column of X."""
    hints = get_type_hints(record)
    columns = []
    for field in fields(record):
        kinds = get_args(hints[field.name]) or (hints[field.name],)
        kind = next(kind for kind in kinds if kind in _ARROW)
        columns.append(pa.field(field.name, _ARROW[kind], nullable=type(None) in kinds))
    return pa.schema(columns)


def _shown_pivots(marked: MarkedRollout | None) -> list[dict[str, Any]]:
    if marked is None:
        return []
    return [
        {
            "variant": marked.variant,
            "question_id": marked.question_id,
            "rollout": marked.rollout,
            "position": mark.position,
            "token": mark.token,
            "alternative": mark.alternative,
            "margin": mark.margin,
            "pass": item.name,
            "credit": item.credit,
            "fate": item.fate,
        }
        for mark in marked.marks
        for item in mark.credits
    ]

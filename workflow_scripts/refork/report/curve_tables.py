"""The tables of outcome curves as files: all curves, not only those on the page."""

from collections.abc import Callable
from dataclasses import asdict

import pyarrow as pa

from refork.data.schemas import CURVES, FORKS, STEPS
from refork.data.tables import Row
from refork.report.curve_forks import fork_survival, shown_forks
from refork.report.curve_rows import CurveSize, Score, curve_sizes, scores
from refork.report.study_data import Decode, StudyData, VariantData
from refork.report.tables import flat_schema

_VARIANT = pa.field("variant", pa.string(), nullable=False)
_SURVIVAL = pa.schema(
    [
        _VARIANT,
        pa.field("epsilon", pa.float64(), nullable=False),
        pa.field("token", pa.int64(), nullable=False),  # generated, counted from 0
        pa.field("at_risk", pa.float64(), nullable=False),
        pa.field("hazard", pa.float64(), nullable=True),
        pa.field("surviving", pa.float64(), nullable=False),
    ]
)
_BRANCHES = pa.schema(
    [
        _VARIANT,
        pa.field("question_id", pa.string(), nullable=False),
        pa.field("rollout", pa.int32(), nullable=False),
        pa.field("fork", pa.int32(), nullable=False),
        pa.field("first", pa.int32(), nullable=False),
        pa.field("last", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("token", pa.string(), nullable=False),
        pa.field("taken", pa.bool_(), nullable=False),
        pa.field("probability", pa.float64(), nullable=False),
    ]
)


def curve_tables(study: StudyData, decode: Decode) -> dict[str, pa.Table]:
    """Return every table of curves by its name; none where no variant has curves."""
    variants = [variant for variant in study.variants if variant.curves]
    if not variants:
        return {}
    return {
        "curves": _stacked(variants, "curves", CURVES),
        "curve_steps": _stacked(variants, "steps", STEPS),
        "curve_forks": _stacked(variants, "forks", FORKS),
        "curve_fork_tokens": _rows(variants, lambda one: _fork_tokens(one, decode), _BRANCHES),
        "curve_survival": _rows(variants, _survival, _SURVIVAL),
        "curve_rollouts": _rows(
            variants, lambda one: [asdict(row) for row in curve_sizes(one)], flat_schema(CurveSize)
        ),
        "curve_scores": _rows(
            variants, lambda one: [asdict(row) for row in scores(one)], flat_schema(Score)
        ),
    }


def _stacked(variants: list[VariantData], name: str, schema: pa.Schema) -> pa.Table:
    tables = []
    for variant in variants:
        table: pa.Table = getattr(variant.curves, name).select(schema.names)
        names = pa.array([variant.name] * table.num_rows, pa.string())
        tables.append(table.add_column(0, _VARIANT, names))
    return pa.concat_tables(tables)


def _rows(
    variants: list[VariantData], rows: Callable[[VariantData], list[Row]], schema: pa.Schema
) -> pa.Table:
    return pa.Table.from_pylist([row for one in variants for row in rows(one)], schema=schema)


def _survival(variant: VariantData) -> list[Row]:
    if variant.curves is None:
        return []
    return [
        {
            "variant": variant.name,
            "epsilon": epsilon,
            "token": token,
            "at_risk": float(one.at_risk[token]),
            "hazard": None if one.hazard[token] != one.hazard[token] else float(one.hazard[token]),
            "surviving": float(one.surviving[token]),
        }
        for epsilon, one in fork_survival(variant.curves).items()
        for token in range(len(one.surviving))
    ]


def _fork_tokens(variant: VariantData, decode: Decode) -> list[Row]:
    if variant.curves is None:
        return []
    return [
        {
            "variant": variant.name,
            "question_id": key[0],
            "rollout": key[1],
            "fork": fork.number,
            "first": fork.first,
            "last": fork.last,
            "position": token.position,
            "token": text,
            "taken": place == 0,
            "probability": probability,
        }
        for key in variant.curves.keys
        for fork in shown_forks(variant.curves, key, decode)
        for token in fork.undecided
        for place, (text, probability) in enumerate(
            [(token.taken, token.probability), *token.others]
        )
    ]

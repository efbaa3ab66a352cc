"""Importer of the per-pivot records of thaw, published with arXiv 2606.15621."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from refork.data.schemas import CREDITS
from refork.data.tables import from_rows
from refork.errors import ReforkError, listed

# Our name of a pass: what the records call it.
PASSES = {"exact": "exact1", "replica": "exact2", "refeed": "refeed"}

Index = Annotated[int, Field(ge=0, lt=2**31)]
Credit = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Nat = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Record(BaseModel):
    """One pivot as thaw writes it; keys that say nothing of credit or replay are passed over."""

    model_config = ConfigDict(strict=True, frozen=True)

    problem_id: int | str
    rollout: Index
    abs_pos: Index
    margin: Nat
    A_exact1: Credit
    A_exact2: Credit
    A_refeed: Credit
    cache_ok_exact1: bool | None = None
    cache_ok_exact2: bool | None = None
    greedy_divergence_exact2: bool | None = None
    greedy_divergence_refeed: bool | None = None
    greedy_first_logprob_delta_exact2: Nat | None = None
    greedy_first_logprob_delta_refeed: Nat | None = None


class _Run(BaseModel):
    """One file of thaw."""

    model_config = ConfigDict(strict=True, frozen=True)

    pivots: list[_Record]


def read_thaw(paths: Iterable[Path]) -> pa.Table:
    """Read thaw files, pooled, into a credits table (`data.schemas.CREDITS`).

    Of records with the same problem, rollout and position, within and across files, the first is
    taken.

    Raises
    ------
    ReforkError
        A file is absent, no JSON, or a record is malformed; the message names file, record and key.
    """
    records: dict[tuple[str, int, int], _Record] = {}
    for path in paths:
        for record in _read_run(path).pivots:
            records.setdefault((str(record.problem_id), record.rollout, record.abs_pos), record)
    rows = [
        _row(record, ours, theirs) for ours, theirs in PASSES.items() for record in records.values()
    ]
    return from_rows(rows, CREDITS)


def _read_run(path: Path) -> _Run:
    try:
        return _Run.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ReforkError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise listed([f"{path}: {_place(one['loc'])}{one['msg']}" for one in found]) from error


def _place(location: tuple[int | str, ...]) -> str:
    """Spell the place of an error as `pivots[12].margin: `."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return "".join(steps).removeprefix(".") + ": " if steps else ""


def _row(record: _Record, ours: str, theirs: str) -> dict[str, Any]:
    return {
        "question_id": str(record.problem_id),
        "rollout": record.rollout,
        "position": record.abs_pos,
        "margin": record.margin,
        "pass": ours,
        "credit": getattr(record, f"A_{theirs}"),
        "cached": getattr(record, f"cache_ok_{theirs}", None),
        "probe_diverged": getattr(record, f"greedy_divergence_{theirs}", None),
        "probe_delta": getattr(record, f"greedy_first_logprob_delta_{theirs}", None),
    }

"""Draws and pivots of a pass matched with those of the reference: which of them agree."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa

from refork.report.frames import PIVOT
from refork.report.study_data import VariantData

DRAW = [*PIVOT, "arm", "draw"]


def outcome_frame(variant: VariantData) -> pd.DataFrame:
    """Return the outcome of every draw of every pass; columns: those of `DRAW`, pass, outcome."""
    frame: pd.DataFrame = variant.outcomes.select([*DRAW, "pass", "outcome"]).to_pandas()
    return frame.dropna(subset=["position", "draw"])


def continuation_frame(variant: VariantData) -> pd.DataFrame:
    """Return every draw of every pass, its tokens as bytes, which compare fast."""
    columns = [*DRAW, "pass", "recomputed_tokens", "fidelity"]
    frame: pd.DataFrame = variant.continuations.select(columns).to_pandas()
    frame["tokens"] = _token_bytes(variant.continuations["token_ids"])
    return frame.dropna(subset=["draw"])


def same_draws(frame: pd.DataFrame, value: str, reference: str, name: str) -> pd.Series:
    """Tell which draws have the value that they have in the reference; the index is the question.

    Draws that one of the two passes lacks are left out.
    """
    sides = [frame.loc[frame["pass"] == side, [*DRAW, value]] for side in (reference, name)]
    both = sides[0].merge(sides[1], on=DRAW, suffixes=("_reference", ""))
    return (both[f"{value}_reference"] == both[value]).set_axis(both["question_id"])


def changed_credits(credits: pd.DataFrame, reference: str, name: str) -> pd.Series:
    """Tell which pivots with a credit in either pass have another one in the other.

    `credits` is the `credit` of `frames.credit_frames`, and so is the index.
    """
    if not {name, reference} <= set(credits.columns):
        return pd.Series(index=credits.index[:0], dtype=bool)
    both = credits[[reference, name]].dropna()
    eligible = both[~np.isclose(both, 0).all(axis=1)]
    changed = ~np.isclose(eligible[reference], eligible[name])
    return pd.Series(changed, index=eligible.index, dtype=bool)


def _token_bytes(column: pa.ChunkedArray) -> list[bytes]:
    lists = column.combine_chunks()
    ids = lists.values.to_numpy()
    return [ids[start:end].tobytes() for start, end in pairwise(lists.offsets.to_pylist())]

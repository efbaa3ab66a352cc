"""Stage extract_pivots: from rollouts to their pivots."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from refork.data.schemas import PIVOTS
from refork.data.tables import Row, from_rows
from refork.stats.pivots import PivotFilter, find_pivots


def extract_pivots(
    stage: Mapping[str, Any], rollouts: pa.Table, special_tokens: Collection[int]
) -> pa.Table:
    """Find the pivots of every rollout, in the order of the rollouts."""
    settings = stage["settings"]["pivots"]
    pivot_filter = PivotFilter(**settings, block_size=stage["lock"]["block_size"])
    rows = [
        pivot
        for rollout in rollouts.to_pylist()
        for pivot in _pivots(rollout, special_tokens, pivot_filter)
    ]
    return from_rows(rows, PIVOTS)


def _pivots(rollout: Row, special_tokens: Collection[int], pivot_filter: PivotFilter) -> list[Row]:
    if not rollout["token_ids"]:
        return []
    top_tokens = np.array(rollout["top_token_ids"], dtype=np.int64)
    top_logprobs = np.array(rollout["top_logprobs"], dtype=np.float64)
    prompt_length = len(rollout["prompt_token_ids"])
    found = find_pivots(
        np.array(rollout["token_ids"], dtype=np.int64),
        top_tokens,
        top_logprobs,
        prompt_length=prompt_length,
        special_tokens=special_tokens,
        pivot_filter=pivot_filter,
    )
    return [
        {
            "question_id": rollout["question_id"],
            "rollout": rollout["rollout"],
            "position": prompt_length + index,
            "margin": margin,
            "actual_token": rollout["token_ids"][index],
            "alt_token": top_tokens[index, rank],
            "actual_logprob": rollout["logprobs"][index],
            "alt_logprob": top_logprobs[index, rank],
        }
        for index, margin, rank in zip(
            found.index.tolist(), found.margin.tolist(), found.alternative.tolist(), strict=True
        )
    ]

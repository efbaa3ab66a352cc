"""Which generated tokens of a rollout are pivots."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PivotFilter:
    """The pivot filter (arXiv 2606.15621, protocol).

    `margin` in nat; `block_size` 1 where a state can be resumed at any position.
    """

    margin: float
    max_per_rollout: int
    first_token: int
    block_size: int = 1
    block_slack: int = 0


@dataclass(frozen=True)
class FoundPivots:
    """Pivots of one rollout, earliest first; all arrays have one element a pivot.

    `index` counts generated tokens from 0; `alternative` is the alternative's rank in the top-k.
    """

    index: NDArray[np.int64]
    margin: NDArray[np.float64]
    alternative: NDArray[np.int64]


def find_pivots(
    token_ids: NDArray[np.int64],
    top_token_ids: NDArray[np.int64],
    top_logprobs: NDArray[np.float64],
    *,
    prompt_length: int,
    special_tokens: Collection[int],
    pivot_filter: PivotFilter,
) -> FoundPivots:
    """Find the pivots of a rollout.

    A pivot's two most probable tokens lie less than `margin` apart; the alternative is the most
    probable of the top-k that is neither the sampled token nor special. A special sampled token is
    no pivot: nothing follows it. Where the engine resumes by block, the position lies at most
    `block_slack` behind a block boundary, and behind the first block.

    Parameters
    ----------
    token_ids
        Generated tokens, shape [n].
    top_token_ids, top_logprobs
        The k most probable tokens, best first, raw log-probabilities in nat, shape [n, k].
    """
    special = np.fromiter(special_tokens, dtype=np.int64)
    position = prompt_length + np.arange(len(token_ids))
    margin = top_logprobs[:, 0] - top_logprobs[:, 1]
    usable = (top_token_ids != token_ids[:, None]) & ~np.isin(top_token_ids, special)
    kept = (
        (margin < pivot_filter.margin)
        & usable.any(axis=1)
        & ~np.isin(token_ids, special)
        & (np.arange(len(token_ids)) >= pivot_filter.first_token)
    )
    if pivot_filter.block_size > 1:
        kept &= position % pivot_filter.block_size <= pivot_filter.block_slack
        kept &= position >= pivot_filter.block_size
    index = np.flatnonzero(kept)[: pivot_filter.max_per_rollout]
    return FoundPivots(index, margin[index], usable[index].argmax(axis=1))

"""Which tokens are pivots."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refork.stats.pivots import FoundPivots, PivotFilter, find_pivots

RULE = PivotFilter(margin=1.0, max_per_rollout=5, first_token=0)
END = 9


def rollout(
    *steps: tuple[int, list[int], list[float]],
) -> tuple[Any, Any, Any]:
    tokens, top, logprobs = zip(*steps, strict=True)
    return np.array(tokens), np.array(top), np.array(logprobs)


def find(
    steps: list[tuple[int, list[int], list[float]]], pivot_filter: PivotFilter, prompt: int = 10
) -> FoundPivots:
    return find_pivots(
        *rollout(*steps), prompt_length=prompt, special_tokens={END}, pivot_filter=pivot_filter
    )


NARROW = [-0.5, -1.0, -3.0]
WIDE = [-0.1, -2.5, -4.0]


def test_the_margin_lies_between_the_two_most_probable() -> None:
    found = find([(1, [1, 2, 3], NARROW), (1, [1, 2, 3], WIDE)], RULE)
    assert found.index.tolist() == [0]
    assert found.margin.tolist() == [0.5]


def test_the_alternative_is_the_best_other_token_that_is_not_special() -> None:
    steps = [
        (1, [1, 2, 3], NARROW),  # the runner-up
        (2, [1, 2, 3], NARROW),  # the best, where the runner-up was sampled
        (1, [1, END, 3], NARROW),  # not the end token
        (7, [END, 2, 3], NARROW),  # a sampled token outside the top-k
    ]
    assert find(steps, RULE).alternative.tolist() == [1, 0, 2, 1]


def test_a_special_token_is_no_pivot_nor_one_without_alternative() -> None:
    steps = [(END, [1, 2, 3], NARROW), (1, [1, END, END], NARROW)]
    assert find(steps, RULE).index.tolist() == []


def test_earliest_first_from_the_first_token_on() -> None:
    steps = [(1, [1, 2, 3], NARROW)] * 6
    pivot_filter = PivotFilter(margin=1.0, max_per_rollout=3, first_token=2)
    assert find(steps, pivot_filter).index.tolist() == [2, 3, 4]


@given(prompt=st.integers(1, 70), slack=st.integers(0, 5))
def test_pivots_lie_close_behind_a_block_boundary(prompt: int, slack: int) -> None:
    pivot_filter = PivotFilter(1.0, 100, 0, block_size=16, block_slack=slack)
    positions = prompt + find([(1, [1, 2, 3], NARROW)] * 50, pivot_filter, prompt).index
    wanted = [p for p in range(prompt, prompt + 50) if p % 16 <= slack and p >= 16]
    assert positions.tolist() == wanted

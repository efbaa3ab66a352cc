"""Stage resample on grids: which branch each draw takes, and with which random numbers."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from refork.data.schemas import GRID, ROLLOUTS
from refork.stages.resample import resample_groups
from refork.study.config import Engine

PROMPT = [7, 8]
TOKENS = [11, 12, 13]
SHARES = [0.5, 0.2, 0.3]
MANY = 4000


def rollouts() -> pa.Table:
    row = {
        "question_id": "q",
        "rollout": 0,
        "seed": 1,
        "prompt_token_ids": PROMPT,
        "token_ids": TOKENS,
        "logprobs": [-0.1, -0.2, -0.3],
        "top_token_ids": [[token] for token in TOKENS],
        "top_logprobs": [[-0.1]] * 3,
        "finish_reason": "stop",
    }
    return pa.Table.from_pylist([row], ROLLOUTS)


def grid(shares: list[float] = SHARES) -> pa.Table:
    """Return a grid of three positions, the second without draws."""
    rows = [
        {
            "question_id": "q",
            "rollout": 0,
            "position": len(PROMPT) + index,
            "on_grid": True,
            "drawn": index != 1,
            "tokens": [TOKENS[index], *(20 + other for other in range(len(shares) - 1))],
            "probabilities": shares,
            "dropped": 0.0,
        }
        for index in range(3)
    ]
    return pa.Table.from_pylist(rows, GRID)


def requests(branches: str, draws: range, shares: list[float] = SHARES) -> list[dict[str, Any]]:
    """Return the requests with their keys, in the common order."""
    settings = {
        "seed": 3,
        "engine": Engine().model_dump(),
        "resample": {"temperature": 1.0, "top_p": 0.9, "top_k": 4, "max_tokens": 5},
        "curves": {"branches": branches},
        "pass": {"name": "curve", "state": "snapshot", "order_seed": None, "seed": None},
    }
    [group] = resample_groups(rollouts(), grid(shares), settings, draws)
    return [
        {**request, **key}
        for request, key in zip(group.requests.to_pylist(), group.keys, strict=True)
    ]


def branch(request: dict[str, Any]) -> int:
    return int(request["arm"].removeprefix("branch-"))


def test_a_mixture_draws_its_branches_by_their_probabilities() -> None:
    drawn = requests("mixture", range(MANY))
    assert {row["position"] for row in drawn} == {2, 4}
    for position in (2, 4):
        here = [row for row in drawn if row["position"] == position]
        assert sorted(row["draw"] for row in here) == list(range(MANY))
        counts = Counter(branch(row) for row in here)
        # Four standard deviations of a share are below .032.
        assert [counts[i] / MANY for i in range(3)] == pytest.approx(SHARES, abs=0.032)


def test_the_forced_token_is_the_branchs_and_the_prefix_ends_before_it() -> None:
    for row in requests("mixture", range(50)):
        index = row["position"] - len(PROMPT)
        assert row["token_ids"] == PROMPT + TOKENS[:index]
        assert row["forced_token"] == [TOKENS[index], 20, 21][branch(row)]
        assert (row["top_p"], row["top_k"], row["max_tokens"]) == (pytest.approx(0.9), 4, 5)


def test_requests_stand_by_position_branch_and_draw() -> None:
    drawn = [(row["position"], branch(row), row["draw"]) for row in requests("mixture", range(40))]
    assert drawn == sorted(drawn)


def test_a_draw_takes_the_same_branch_and_seed_in_any_block() -> None:
    names = ("position", "draw", "arm", "seed")
    whole = {tuple(row[name] for name in names) for row in requests("mixture", range(20))}
    parts = [requests("mixture", block) for block in (range(8), range(8, 20))]
    assert {tuple(row[name] for name in names) for part in parts for row in part} == whole


def test_every_branch_that_may_come_has_all_draws_with_numbers_of_its_own() -> None:
    drawn = requests("each", range(3), [0.0, 0.4, 0.6])
    assert [(row["position"], branch(row), row["draw"]) for row in drawn] == [
        (position, number, draw) for position in (2, 4) for number in (1, 2) for draw in range(3)
    ]
    assert len({row["seed"] for row in drawn}) == len(drawn)


def test_no_mixture_draw_takes_a_branch_that_cannot_come() -> None:
    taken = {branch(row) for row in requests("mixture", range(500), [0.0, 1.0, 0.0])}
    assert taken == {1}

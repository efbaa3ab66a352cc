"""What is refused before anything runs, and in which words."""

import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from helpers.requests import SAMPLED, table
from refork.engines.requests import Request, check_requests, read_requests
from refork.errors import EngineError

CONTEXT = 20
RESUMED: dict[str, Any] = {
    "question_id": "bees",
    "rollout": 3,
    "state": "decode_replay",
    "prompt_length": 4,
    "token_ids": [1, 2, 3, 4, 5, 6],
    "logprobs": [-0.1, -0.2],
    "forced_token": 7,
    "seed": 2**64 - 1,
    **SAMPLED,
    "max_tokens": 13,
    "top_logprobs": 5,
    "keep_snapshot": False,
}


def check(snapshots_in: Path | None = None, **changes: Any) -> None:
    requests = read_requests(table([RESUMED, {**RESUMED, **changes}]))
    check_requests(requests, CONTEXT, snapshots_in, None, vocabulary=10)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 1e-3},
        {"temperature": 1e6},
        {"top_p": 1.0},
        {"top_p": 1e-6},
        {"top_k": 10**6},
        {"top_logprobs": 0},
        {"top_logprobs": 20},
        {"logprobs": None},
        {"forced_token": 9},
        {"token_ids": [0] * 18, "logprobs": None, "max_tokens": 1},
        {"token_ids": [0] * 19, "logprobs": None, "forced_token": None, "max_tokens": 1},
    ],
)
def test_what_can_be_run_is_let_through(changes: dict[str, Any]) -> None:
    check(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": "warm"}, "state 'warm' is not one of fresh, snapshot, decode_replay, prefill"),
        ({"state": "snapshot"}, "state snapshot needs a snapshot file"),
        ({"keep_snapshot": True}, "keep_snapshot needs a file to write to"),
        ({"prompt_length": 0}, "a prompt of 0 tokens in a prefix of 6"),
        ({"prompt_length": 7}, "a prompt of 7 tokens in a prefix of 6"),
        ({"logprobs": [-0.1]}, "1 log-probabilities for 2 generated tokens"),
        ({"token_ids": [1, 2, 3, 4, -5, 6]}, "token id -5 is negative"),
        ({"forced_token": -1}, "token id -1 is negative"),
        ({"token_ids": [1, 2, 3, 4, 5, 10]}, "token id 10 is not in the model's vocabulary of 10"),
        ({"forced_token": 11}, "token id 11 is not in the model's vocabulary of 10 tokens"),
        ({"max_tokens": 0}, "max_tokens is 0, must be at least 1"),
        ({"max_tokens": 14}, "7 tokens and 14 more do not fit the context of 20 tokens"),
        (
            {"token_ids": [0] * 21, "logprobs": None},
            "a prefix of 21 tokens is longer than the context of 20 tokens",
        ),
        (
            {"token_ids": [0] * 20, "logprobs": None},
            "21 tokens and 13 more do not fit the context of 20 tokens",
        ),
        ({"temperature": -0.5}, "temperature is -0.5, must be 0 or a finite number from 0.001 up"),
        ({"temperature": 1e-30}, "temperature is 1e-30, must be 0 or a finite number"),
        ({"temperature": math.inf}, "temperature is inf, must be 0 or a finite number"),
        ({"temperature": math.nan}, "temperature is nan, must be 0 or a finite number"),
        ({"top_p": 0.0}, "top_p is 0, must be above 0 and at most 1"),
        ({"top_p": -0.1}, "top_p is -0.1, must be above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5, must be above 0 and at most 1"),
        ({"top_p": math.nan}, "top_p is nan, must be above 0 and at most 1"),
        ({"top_k": -1}, "top_k is -1, must be 0 (all tokens) or more"),
        ({"top_logprobs": -1}, "top_logprobs is -1, must be from 0 to 20"),
        ({"top_logprobs": 21}, "top_logprobs is 21, must be from 0 to 20"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_question(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(EngineError, match=f"^question bees, rollout 3: {re.escape(words)}"):
        check(**changes)


def test_a_rollout_leaves_one_snapshot(tmp_path: Path) -> None:
    keeping = {**RESUMED, "keep_snapshot": True}
    out = tmp_path / "snapshots.safetensors"
    apart = read_requests(table([keeping, RESUMED, {**keeping, "rollout": 4}]))
    check_requests(apart, CONTEXT, None, out)
    twice = read_requests(table([keeping, RESUMED, keeping]))
    words = "question bees, rollout 3: keep_snapshot stands at two requests"
    with pytest.raises(EngineError, match=words):
        check_requests(twice, CONTEXT, None, out)


def test_a_snapshot_is_taken_from_its_file(tmp_path: Path) -> None:
    check(tmp_path / "snapshots.safetensors", state="snapshot")


def test_other_columns_are_refused() -> None:
    requests = table([RESUMED])
    with pytest.raises(EngineError, match="the columns are"):
        read_requests(requests.drop_columns(["seed"]))
    with pytest.raises(EngineError, match="the columns are"):
        read_requests(requests.append_column("more", pa.array([1])))


def test_a_request_knows_its_rollout_and_its_tokens() -> None:
    (request,) = read_requests(table([RESUMED]))
    assert isinstance(request, Request)
    assert request.rollout_id == "bees/3"
    assert request.known == [1, 2, 3, 4, 5, 6, 7]
    (unforced,) = read_requests(table([{**RESUMED, "forced_token": None}]))
    assert unforced.known == [1, 2, 3, 4, 5, 6]

"""Batch groups as the vLLM engine lays them out, in blocks of four tokens."""

from pathlib import Path
from typing import Any

from refork.engines.requests import Request
from refork.engines.vllm.group_requests import GroupRequests, Layout

END = 99
BLOCK = 4


def request(tokens: int, *, prompt: int = 3, **given: Any) -> Request:
    """Return a request whose prefix is 0, 1, 2, …"""
    return Request(
        **{
            "request": 0,
            "question_id": "bees",
            "rollout": 0,
            "state": "decode_replay",
            "prompt_length": prompt,
            "token_ids": list(range(tokens)),
            "logprobs": None,
            "forced_token": 50,
            "seed": 2**64 - 1,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": 0,
            "max_tokens": 7,
            "top_logprobs": 5,
            "keep_snapshot": False,
            **given,
        }
    )


def asked(*group: Request, tail: str = "prefill", snapshots: Path | None = None) -> GroupRequests:
    """Lay out a group in blocks of four tokens."""
    return GroupRequests(group, "group 0", Layout(BLOCK, tail), frozenset({END}), snapshots)

"""A small config, and a lock that fits it."""

from collections.abc import Callable
from typing import Any

from refork.study.loading import Study

CONFIG: dict[str, Any] = {
    "study": "small",
    "questions": {"file": "questions.jsonl", "shards": 2},
    "model": {"folder": "model"},
    "engine": {"kind": "torch", "device": "cpu"},
}
LOCKED: dict[str, Any] = {
    "model": {"digest": "m"},
    "questions": {"digest": "q", "count": 10},
    "examples": None,
    "engine": {"kind": "torch", "device": "cpu", "version": "1", "block_size": 1},
}

Studies = Callable[..., Study]

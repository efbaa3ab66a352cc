"""Batch groups: the deterministic lists of requests that engine jobs are made of.

A batch changes results in bf16, so it is part of the treatment: nothing is batched across groups,
and a group is what is journalled and what is done again after a crash.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from refork.data.schemas import REQUESTS
from refork.data.tables import Row, from_rows


@dataclass(frozen=True)
class BatchGroup:
    """The requests of one batch group, and for each the key columns that its result will carry."""

    questions: int
    requests: pa.Table
    keys: tuple[Row, ...]


def batch_group(questions: int, rows: Sequence[tuple[Row, Row]]) -> BatchGroup:
    """Make a batch group of (request, key) pairs; requests are numbered in the order given."""
    requests = [{"request": index, **request} for index, (request, _) in enumerate(rows)]
    return BatchGroup(questions, from_rows(requests, REQUESTS), tuple(key for _, key in rows))


def chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Cut a sequence into chunks of `size`, the last one shorter."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def shuffle_key(order_seed: int, *key: object) -> bytes:
    """Return a sort key that puts requests into another, reproducible order."""
    return hashlib.blake2b(repr((order_seed, *key)).encode(), digest_size=16).digest()

"""What came out of the steps of a batch group, kept as arrays until the group has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from refork.engines.sampling import DrawnArrays
from refork.engines.vllm.instructions import Record

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Written:
    """What came out of some rows in one step; an element a row."""

    keys: NDArray[np.int64]  # of their requests
    numbers: NDArray[np.int64]  # of the token among those that came out of its request
    recorded: NDArray[np.int64]  # most probable tokens that were asked for; 0 of a forced token
    drawn: DrawnArrays


def unpacked(written: Sequence[Written]) -> dict[int, Record]:
    """Make the record of each request, by its key.

    A row whose prompt is not fed to its end gives a token that vLLM throws away: of several tokens
    of one number the last counts.
    """
    if not written:
        return {}
    keys = np.concatenate([step.keys for step in written])
    numbers = np.concatenate([step.numbers for step in written])
    recorded = np.concatenate([step.recorded for step in written])
    width = max(step.drawn.tokens.shape[1] for step in written)
    tokens = np.concatenate([_widened(step.drawn.tokens, width) for step in written])
    logprobs = np.concatenate([_widened(step.drawn.logprobs, width) for step in written])

    order = np.lexsort((numbers, keys))  # stable: of equals the last one written comes last
    keys, numbers = keys[order], numbers[order]
    last = np.append((keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1]), True)
    order, keys = order[last], keys[last]
    names, firsts = np.unique(keys, return_index=True)
    parts = np.split(order, firsts[1:])
    return {
        int(key): _record(tokens[part], logprobs[part], recorded[part])
        for key, part in zip(names, parts, strict=True)
    }


def _record(
    tokens: NDArray[np.int64], logprobs: NDArray[np.float32], recorded: NDArray[np.int64]
) -> Record:
    return Record(
        tokens[:, 0].tolist(),
        logprobs[:, 0].tolist(),
        _cut(tokens[:, 1:], recorded),
        _cut(logprobs[:, 1:], recorded),
    )


def _cut(rows: NDArray[Number], counts: NDArray[np.int64]) -> list[list[Any]]:
    """Give the first so many numbers of each row, by runs of one count: most records have two."""
    firsts = np.flatnonzero(np.diff(counts)) + 1
    runs = zip(np.split(rows, firsts), np.split(counts, firsts), strict=True)
    return [row for part, count in runs for row in part[:, : count[0]].tolist()]


def _widened(numbers: NDArray[Number], width: int) -> NDArray[Number]:
    return np.pad(numbers, ((0, 0), (0, width - numbers.shape[1])))

"""Columns of token lists as flat arrays, and back: what keeps the synthetic engine fast."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refork.data.schemas import RESULTS

Array = NDArray[Any]


@dataclass(frozen=True)
class Lists:
    """A column of lists: all values in one array, and how many each row has (0 for null)."""

    values: Array
    lengths: NDArray[np.int64]

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """Return where each row begins in `values`."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Return the row of each value."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def row(self, index: int) -> Array:
        """Return the values of one row."""
        first = int(self.firsts[index])
        return self.values[first : first + int(self.lengths[index])]


def read_lists(column: pa.ChunkedArray) -> Lists:
    """Read an Arrow column of lists."""
    lists = column.combine_chunks()
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return Lists(lists.flatten().to_numpy(zero_copy_only=False), lengths.astype(np.int64))


def read_numbers(column: pa.ChunkedArray, null: float = 0) -> Array:
    """Read an Arrow column of numbers, `null` where it has none."""
    numbers: Array = column.fill_null(null).to_numpy()
    return numbers


def results_table(
    *,
    request: Array,
    tokens: Lists,
    logprobs: Array,
    top_token_ids: Lists,
    top_logprobs: Array,
    stopped: NDArray[np.bool_],
    cached: Array,
    recomputed: Array,
    fidelity: Array,
) -> pa.Table:
    """Return results (`data.schemas.RESULTS`); a fidelity of NaN is null.

    `logprobs` stands beside `tokens.values`; `top_token_ids` has a row a generated token,
    `top_logprobs` stands beside its values.
    """
    tops = (top_token_ids.values, top_logprobs)
    columns = {
        "request": request.astype(np.int32),
        "token_ids": _lists(tokens.lengths, pa.array(tokens.values, pa.int32())),
        "logprobs": _lists(tokens.lengths, pa.array(logprobs, pa.float32())),
        "top_token_ids": pa.nulls(0),
        "top_logprobs": pa.nulls(0),
        "finish_reason": np.where(stopped, "stop", "length"),
        "cached_tokens": cached.astype(np.int32),
        "recomputed_tokens": recomputed.astype(np.int32),
        "fidelity": pa.array(fidelity, pa.float32(), from_pandas=True),
    }
    for name, values in zip(("top_token_ids", "top_logprobs"), tops, strict=True):
        kind = RESULTS.field(name).type.value_type.value_type
        inner = _lists(top_token_ids.lengths, pa.array(values, kind))
        columns[name] = _lists(tokens.lengths, inner)
    return pa.table(columns, schema=RESULTS)


def _lists(lengths: NDArray[np.int64], values: pa.Array) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, values)

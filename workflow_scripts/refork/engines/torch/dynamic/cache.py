"""Key-value states of the rows that are decoded side by side."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, DynamicLayer

RESERVE = 128
"""Columns by which the buffer grows."""


class StepLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer during one decode step: views whose last column is still to be written."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the step's keys and values [rows, key heads, 1, width]; gives all of them."""
        self.keys[:, :, -1:] = key_states
        self.values[:, :, -1:] = value_states
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Tokens before this step."""
        return int(self.keys.shape[-2]) - 1


@dataclass(frozen=True)
class Step:
    """What the model is given for one decode step."""

    cache: Cache
    attention_mask: torch.Tensor  # bool [rows, columns]
    position_ids: torch.Tensor  # int64 [rows, 1]


class RowCache:
    """One buffer [layers, 2, capacity, key heads, columns, width] for rows of different lengths.

    All rows end at the same column, so that a step writes one column: row r holds the columns from
    starts[r] to `end`, and what lies left of them is masked.
    """

    def __init__(self, capacity: int, empty: torch.Tensor) -> None:
        """Make room for rows whose states are like `empty` [layers, 2, key heads, 0, width]."""
        self.end = 0
        self.starts: list[int] = []
        layers, _, heads, _, width = empty.shape
        # Zeros, for a masked column must hold finite numbers.
        self.buffer = empty.new_zeros((layers, 2, capacity, heads, RESERVE, width))

    def enter(self, state: torch.Tensor, tokens: int) -> None:
        """Add a row behind the others: a copy of the first `tokens` tokens of a state."""
        row = len(self.starts)
        if row == self.buffer.shape[2]:
            raise ValueError(f"a cache of {row} rows has no place for another")
        if tokens > self.end:
            self._grow(tokens)
        self.starts.append(self.end - tokens)
        self.buffer[:, :, row, :, self.starts[row] : self.end] = state[:, :, :, :tokens]

    def step(self) -> Step:
        """Give views for the next decode step; `end` moves on by one column."""
        if self.end == self.buffer.shape[4]:
            self._grow(0)
        first = min(self.starts)
        self.end += 1
        rows = len(self.starts)
        window = self.buffer[:, :, :rows, :, first : self.end]
        starts = torch.tensor(self.starts, device=window.device)[:, None]
        columns = torch.arange(first, self.end, device=window.device)
        return Step(
            cache=Cache(layers=[StepLayer(layer[0], layer[1]) for layer in window]),
            attention_mask=columns >= starts,
            position_ids=self.end - 1 - starts,
        )

    def state(self, row: int) -> torch.Tensor:
        """Copy of a row's state [layers, 2, key heads, tokens, width]."""
        return self.buffer[:, :, row, :, self.starts[row] : self.end].clone()

    def drop(self, row: int) -> None:
        """Forget a row; the last row takes its place."""
        last = len(self.starts) - 1
        if row != last:
            kept = slice(self.starts[last], self.end)
            self.buffer[:, :, row, :, kept] = self.buffer[:, :, last, :, kept]
        self.starts[row] = self.starts[last]
        self.starts.pop()

    def _grow(self, tokens: int) -> None:
        """Make room for more columns, and `end` at least `tokens`.

        Columns that no row uses any more are let go of.
        """
        rows = len(self.starts)
        first = min(self.starts, default=self.end)
        used = self.end - first
        end = max(used, tokens)
        old = self.buffer[:, :, :rows, :, first : self.end]
        self.buffer = old.new_zeros((*self.buffer.shape[:4], end + RESERVE, old.shape[5]))
        self.buffer[:, :, :rows, :, end - used : end] = old
        self.starts = [start - first + end - used for start in self.starts]
        self.end = end

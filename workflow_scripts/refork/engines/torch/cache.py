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
        """Write the step's keys and values [rows, heads, 1, head_dim] and give back all of them."""
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
    """One buffer [layers, 2, rows, heads, columns, head_dim] for rows of different lengths.

    All rows end at the same column, so that a step writes one column: row r holds the columns from
    starts[r] to `end`, and what lies left of them is masked.
    """

    def __init__(self, states: list[torch.Tensor]) -> None:
        """Place each row's state [layers, 2, heads, tokens, head_dim]."""
        lengths = [state.shape[3] for state in states]
        self.end = max(lengths)
        self.starts = [self.end - length for length in lengths]
        layers, _, heads, _, width = states[0].shape
        shape = (layers, 2, len(states), heads, self.end + RESERVE, width)
        # Zeros, for a masked column must hold finite numbers.
        self.buffer = torch.zeros(shape, dtype=states[0].dtype, device=states[0].device)
        for row, state in enumerate(states):
            self.buffer[:, :, row, :, self.starts[row] : self.end] = state

    def step(self) -> Step:
        """Give views for the next decode step; `end` moves on by one column."""
        if self.end == self.buffer.shape[4]:
            self._grow()
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
        """Copy of a row's state [layers, 2, heads, tokens, head_dim]."""
        return self.buffer[:, :, row, :, self.starts[row] : self.end].clone()

    def drop(self, row: int) -> None:
        """Forget a row; the last row takes its place."""
        last = len(self.starts) - 1
        if row != last:
            kept = slice(self.starts[last], self.end)
            self.buffer[:, :, row, :, kept] = self.buffer[:, :, last, :, kept]
        self.starts[row] = self.starts[last]
        self.starts.pop()

    def _grow(self) -> None:
        """Make room for more columns, and let go of those that no row uses any more."""
        first = min(self.starts)
        old = self.buffer[:, :, : len(self.starts), :, first : self.end]
        shape = (*old.shape[:4], old.shape[4] + RESERVE, old.shape[5])
        self.buffer = old.new_zeros(shape)
        self.buffer[:, :, :, :, : old.shape[4]] = old
        self.end -= first
        self.starts = [start - first for start in self.starts]

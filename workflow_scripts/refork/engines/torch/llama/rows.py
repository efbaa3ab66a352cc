"""Rows of the fast path: prefixes by reference on the CPU, copied on other devices."""

from typing import Protocol

import torch

from refork.engines.tiles import TILE_ROWS
from refork.engines.torch.llama.forward import Attention, Network, Places
from refork.engines.torch.llama.memory import Memory, Prefix, Row


class MakeAttention(Protocol):
    """Prepares the attention of a step."""

    def __call__(self, memory: torch.Tensor, places: Places, rows: list[Row]) -> Attention:
        """Give it for these rows, which stand first in the memory."""
        ...


class LlamaRows:
    """Rows that are decoded side by side; `Rows` of the torch engine."""

    def __init__(
        self,
        network: Network,
        memory: Memory,
        capacity: int,
        make_attention: MakeAttention,
        *,
        sharing: bool,
        padded: bool,
    ) -> None:
        """Start without rows.

        Parameters
        ----------
        sharing
            Whether rows hold their prefix by reference; else it is copied into the memory.
        padded
            Whether every forward pass has exactly TILE_ROWS rows, spare ones among them.
        """
        self._network, self._memory, self._capacity = network, memory, capacity
        self._make_attention = make_attention
        self._sharing = sharing
        self._tile = TILE_ROWS if padded else capacity
        self._padded = padded
        self._rows: list[Row] = []

    def enter(self, state: torch.Tensor, tokens: int) -> None:
        """Add a row behind the others, from the first `tokens` tokens of a state.

        Raises
        ------
        ValueError
            There is no free row, or the state is shorter.
        """
        if len(self._rows) == self._capacity:
            raise ValueError(f"there are {self._capacity} rows already")
        if tokens > state.shape[3]:
            raise ValueError(f"a state of {state.shape[3]} tokens has no {tokens}")
        row = Row(self._prefix(state), tokens) if self._sharing else Row(own=tokens)
        self._rows.append(row)
        self._fit()
        if not self._sharing:
            self._memory.write(len(self._rows) - 1, state[:, :, :, :tokens])

    @torch.no_grad()
    def step(self, tokens: list[int]) -> torch.Tensor:
        """Feed one token to every row; gives the logits of the next, float32 [rows, vocabulary]."""
        self._fit()
        logits = [
            self._step(first, self._rows[first : first + self._tile], tokens)
            for first in range(0, len(self._rows), self._tile)
        ]
        for row in self._rows:
            row.own += 1
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def state(self, row: int) -> torch.Tensor:
        """Copy a row's state [layers, 2, key heads, tokens, width]."""
        known = self._rows[row]
        own = self._memory.read(row, known.own)
        if known.prefix is None:
            return own.clone()
        return torch.cat([known.prefix.state[:, :, :, : known.shared], own], dim=3)

    def drop(self, row: int) -> None:
        """Forget a row; the last row takes its place."""
        last = self._rows.pop()
        if row < len(self._rows):
            self._memory.write(row, self._memory.read(len(self._rows), last.own))
            self._rows[row] = last

    def _step(self, first: int, rows: list[Row], tokens: list[int]) -> torch.Tensor:
        """Feed some rows, and spare ones behind them where the pass is padded."""
        count, some = len(rows), tokens[first : first + len(rows)]
        memory = self._memory.tensor
        if self._padded:
            rows = rows + [Row()] * (self._tile - count)
            some = some + [0] * (self._tile - count)
            memory = memory[:, :, first : first + self._tile]
        device = memory.device
        positions = [row.length for row in rows]
        places = Places(
            positions=torch.tensor(positions, device=device),
            rows=torch.arange(len(rows), device=device),
            columns=torch.tensor([row.own for row in rows], device=device),
            furthest=max(positions),
        )
        attention = self._make_attention(memory, places, rows)
        normed = self._network.run(torch.tensor(some, device=device), attention)
        return self._network.logits(normed)[:count]

    def _prefix(self, state: torch.Tensor) -> Prefix:
        """Find the prefix that a state already is to another row."""
        for row in self._rows:
            if row.prefix is not None and row.prefix.is_of(state):
                return row.prefix
        return Prefix(state, state.contiguous())

    def _fit(self) -> None:
        """Fit the memory to the rows and to one token more in each."""
        rows = len(self._rows)
        if self._padded:
            rows = -(-rows // TILE_ROWS) * TILE_ROWS
        self._memory.fit(rows, max(row.own for row in self._rows) + 1)

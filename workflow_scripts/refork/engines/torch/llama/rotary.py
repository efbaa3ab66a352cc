"""Cosines and sines of the rotary embedding, as far as they are needed."""

from typing import Any

import torch

GROWTH = 4096
"""Positions by which the table grows."""
Table = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines [positions, width / 2]."""


class Rotary:
    """The model's own rotary embedding, in float32, half a head wide.

    Its angles are those of a position alone, and the two halves of a head turn alike.
    """

    def __init__(self, embedding: Any, context_length: int, device: torch.device) -> None:
        """Take the embedding of a transformers model."""
        self._embedding = embedding
        self._context_length = context_length
        self._device = device
        self._table = self._rows(0, min(GROWTH, context_length))

    def table(self, positions: int) -> Table:
        """Give the table of at least so many positions, attention factor included."""
        held = len(self._table[0])
        if positions > held:
            wanted = max(-(-positions // GROWTH) * GROWTH, min(2 * held, self._context_length))
            cosines, sines = self._rows(held, wanted)
            self._table = torch.cat([self._table[0], cosines]), torch.cat([self._table[1], sines])
        return self._table

    @torch.no_grad()
    def _rows(self, first: int, last: int) -> Table:
        positions = torch.arange(first, last, device=self._device)[None]
        like = torch.empty(0, dtype=torch.float32, device=self._device)
        cosines, sines = self._embedding(like, positions)
        half = cosines.shape[-1] // 2
        return cosines[0, :, :half].contiguous(), sines[0, :, :half].contiguous()

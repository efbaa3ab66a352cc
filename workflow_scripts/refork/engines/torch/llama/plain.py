"""Kernels of torch operations, for any device.

Given exactly TILE_ROWS rows, every operation has the same shapes whatever the rows are, so that a
device has no reason to take another kernel; a key's block is set by its position alone.
"""

import math

import torch
from torch.nn.functional import silu

from refork.engines.torch.llama.forward import Attention, Places
from refork.engines.torch.llama.memory import RESERVE
from refork.engines.torch.llama.rotary import Table

KEYS = RESERVE
"""Keys of a block."""


class PlainElementwise:
    """`Elementwise` as transformers writes it."""

    def __init__(self, epsilon: float) -> None:
        """Take the epsilon of all norms."""
        self._epsilon = epsilon

    def add_norm(
        self, stream: torch.Tensor, update: torch.Tensor | None, weight: torch.Tensor
    ) -> torch.Tensor:
        """Add the update to the stream [rows, hidden] in place; gives its root mean square norm."""
        if update is not None:
            stream += update
        return _norm(stream, weight, self._epsilon)

    def place(
        self,
        projected: torch.Tensor,
        norms: tuple[torch.Tensor, torch.Tensor],
        table: Table,
        attention: Attention,
        layer: int,
    ) -> torch.Tensor:
        """Norm, rotate, write keys and values to the memory; gives queries [rows, heads, width]."""
        memory, places = attention.memory[layer], attention.places
        key_heads, width = memory.shape[2], memory.shape[4]
        split = projected.view(len(projected), -1, width)
        heads = split.shape[1] - 2 * key_heads
        turning, value = split[:, : heads + key_heads], split[:, heads + key_heads :]
        if norms[0].numel():
            query = _norm(turning[:, :heads], norms[0], self._epsilon)
            key = _norm(turning[:, heads:], norms[1], self._epsilon)
            turning = torch.cat([query, key], dim=1)
        cosines, sines = (part[places.positions][:, None] for part in table)
        turned = _rotated(turning, cosines, sines)
        memory[0][places.rows, :, places.columns] = turned[:, heads:]
        memory[1][places.rows, :, places.columns] = value
        return turned[:, :heads]

    def gate(self, projected: torch.Tensor) -> torch.Tensor:
        """Give silu(gate) · up of [rows, 2 · inner]."""
        gates, ups = projected.chunk(2, dim=1)
        return silu(gates) * ups


def _norm(values: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    wide = values.float()
    unit = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    return weight * unit.to(values.dtype)


def _rotated(values: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    left, right = values.float().chunk(2, dim=-1)
    turned = (left * cosines - right * sines, right * cosines + left * sines)
    return torch.cat(turned, dim=-1).to(values.dtype)


class BlockAttention:
    """Attention over blocks of KEYS keys, merged in the order of positions.

    A block that holds nothing for a row leaves that row as it is, so the number of blocks does not
    matter.
    """

    def __init__(self, memory: torch.Tensor, places: Places, lengths: torch.Tensor) -> None:
        """Prepare for one forward pass.

        Parameters
        ----------
        memory
            [layers, 2, rows, key heads, columns, width], columns a multiple of KEYS; one row that
            all tokens see, or one for each.
        places
            Where the pass writes.
        lengths
            Columns that each token sees, its own included, int64 [tokens].
        """
        self.memory, self.places = memory, places
        columns = torch.arange(memory.shape[4], device=memory.device)
        self._hidden = (columns >= lengths[:, None])[:, None, None]
        self._blocks = -(-(places.furthest + 1) // KEYS)

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [tokens, heads, width]; gives [tokens, heads · width]."""
        tokens, heads, width = query.shape
        key_heads = self.memory.shape[3]
        grouped = query.float().view(tokens, key_heads, heads // key_heads, width)
        grouped = grouped / math.sqrt(width)
        largest = grouped.new_full((*grouped.shape[:3], 1), -math.inf)
        total, sums = torch.zeros_like(largest), torch.zeros_like(grouped)
        for block in range(self._blocks):
            columns = slice(block * KEYS, (block + 1) * KEYS)
            keys, values = (self._block(layer, part, columns, tokens) for part in range(2))
            scores = grouped @ keys.transpose(-1, -2)
            scores = scores.masked_fill(self._hidden[..., columns], -math.inf)
            top = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
            powers, shrink = torch.exp(scores - top), torch.exp(largest - top)
            seen = ~self._hidden[..., block * KEYS, None]
            total = torch.where(seen, total * shrink + powers.sum(dim=-1, keepdim=True), total)
            sums = torch.where(seen, sums * shrink + powers @ values, sums)
            largest = top
        return (sums / total).to(query.dtype).view(tokens, heads * width)

    def _block(self, layer: int, part: int, columns: slice, tokens: int) -> torch.Tensor:
        """Copy keys or values of a block [tokens, key heads, KEYS, width], in float32."""
        block = self.memory[layer, part, :, :, columns].float()
        return block.expand(tokens, *block.shape[1:]).contiguous()

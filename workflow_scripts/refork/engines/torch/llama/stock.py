"""Attention by torch's own kernels, whose last bits depend on what is computed together."""

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from refork.engines.torch.llama.forward import Places
from refork.engines.torch.llama.memory import Prefix, Row

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class CausalAttention:
    """Attention of a whole sequence at once."""

    def __init__(self, state: torch.Tensor, places: Places) -> None:
        """Write to a state [layers, 2, key heads, tokens, width]."""
        self.memory, self.places = state[:, :, None], places

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [tokens, heads, width]; gives [tokens, heads · width]."""
        keys, values = self.memory[layer]
        out = scaled_dot_product_attention(
            query.transpose(0, 1)[None], keys, values, is_causal=True, enable_gqa=True
        )
        return out[0].transpose(0, 1).flatten(1)


class OwnAttention:
    """One token a row against that row of the memory, which holds all of its state."""

    def __init__(self, memory: torch.Tensor, places: Places, rows: list[Row]) -> None:
        """Prepare for one step; memory is [layers, 2, rows, key heads, columns, width]."""
        self.memory, self.places = memory, places
        self._columns = max(row.own for row in rows) + 1
        columns = torch.arange(self._columns, device=memory.device)
        self._mask = (columns <= places.columns[:, None])[:, None, None]

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [rows, heads, width]; gives [rows, heads · width]."""
        rows, _, width = query.shape
        keys, values = self.memory[layer, :, :rows, :, : self._columns]
        # A group's heads stand where a prompt's queries would.
        grouped = query.view(rows, keys.shape[1], -1, width)
        out = scaled_dot_product_attention(grouped, keys, values, attn_mask=self._mask)
        return out.reshape(rows, -1)


@dataclass(frozen=True)
class _Shared:
    """Rows of one prefix."""

    prefix: Prefix
    rows: torch.Tensor  # int64
    tokens: int
    mask: torch.Tensor | None  # [1, 1, rows · members, tokens]


class SharedAttention:
    """One token a row against its prefix, which others share, and against its own part.

    The two parts are merged by their log-sum-exp.
    """

    def __init__(self, memory: torch.Tensor, places: Places, rows: list[Row], members: int) -> None:
        """Prepare for one step; `members` is the number of query heads of a key head."""
        self.memory, self.places = memory, places
        self._columns = max(row.own for row in rows) + 1
        hidden = torch.arange(self._columns) > places.columns[:, None]
        mask = memory.new_zeros(hidden.shape).masked_fill(hidden, -math.inf)
        self._mask = mask[:, None, None].expand(-1, 1, members, -1)
        lengths: dict[Prefix, dict[int, int]] = {}
        for number, row in enumerate(rows):
            if row.prefix is not None and row.shared:
                lengths.setdefault(row.prefix, {})[number] = row.shared
        self._shared = [_share(prefix, some, members) for prefix, some in lengths.items()]

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [rows, heads, width]; gives [rows, heads · width]."""
        count, heads, width = query.shape
        keys, values = self.memory[layer, :, :count, :, : self._columns]
        grouped = query.view(count, keys.shape[1], -1, width)
        own, own_sums = _flash(grouped, keys, values, attn_mask=self._mask)
        other = torch.zeros_like(grouped)
        other_sums = own_sums.new_full(grouped.shape[:3], -math.inf)
        for shared in self._shared:
            some = grouped[shared.rows].transpose(0, 1).flatten(1, 2)[None]
            state = shared.prefix.state[layer, :, None, :, : shared.tokens]
            out, sums = _flash(some, state[0], state[1], attn_mask=shared.mask)
            shape = (keys.shape[1], len(shared.rows), -1)
            other[shared.rows] = out[0].view(*shape, width).transpose(0, 1)
            other_sums[shared.rows] = sums[0].reshape(shape).transpose(0, 1)
        share = torch.sigmoid(own_sums - other_sums)[..., None]
        merged = torch.lerp(other.float(), own.float(), share)
        return merged.to(query.dtype).view(count, heads * width)


def _share(prefix: Prefix, lengths: dict[int, int], members: int) -> _Shared:
    """Prepare for the rows of a prefix, of which each sees so many tokens."""
    shortest, longest = min(lengths.values()), max(lengths.values())
    mask = None
    if shortest < longest:
        hidden = torch.arange(longest) >= torch.tensor(list(lengths.values()))[:, None]
        mask = prefix.state.new_zeros(hidden.shape).masked_fill(hidden, -math.inf)
        mask = mask.repeat_interleave(members, dim=0)[None, None]
    return _Shared(prefix, torch.tensor(list(lengths)), longest, mask)

"""The compiled kernels as the forward pass asks for them: tensors in, tensors out."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refork.engines.torch.llama.compiled.attention import Sight, attend
from refork.engines.torch.llama.compiled.elementwise import (
    HeadNorms,
    Landing,
    add_norm,
    gate,
    place,
)
from refork.engines.torch.llama.forward import Attention, Places
from refork.engines.torch.llama.memory import Row
from refork.engines.torch.llama.rotary import Table


def array(tensor: torch.Tensor) -> NDArray[Any]:
    """Give a tensor's memory as numpy has it; bfloat16 as uint16."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    return tensor.numpy()


class CompiledElementwise:
    """`Elementwise` in one pass over each row."""

    def __init__(self, epsilon: float) -> None:
        """Take the epsilon of all norms."""
        self._epsilon = epsilon

    def add_norm(
        self, stream: torch.Tensor, update: torch.Tensor | None, weight: torch.Tensor
    ) -> torch.Tensor:
        """Add the update to the stream [rows, hidden] in place; gives its root mean square norm."""
        normed = torch.empty_like(stream)
        own = array(stream)
        other = own[:0] if update is None else array(update)
        add_norm(own, other, array(weight), self._epsilon, array(normed))
        return normed

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
        heads = projected.shape[1] // width - 2 * key_heads
        query = projected.new_empty((len(projected), heads, width))
        landing = Landing(
            *(array(part) for part in (places.positions, places.rows, places.columns, *table))
        )
        head_norms = HeadNorms(array(norms[0]), array(norms[1]), self._epsilon)
        place(array(projected), head_norms, landing, array(memory), array(query))
        return query

    def gate(self, projected: torch.Tensor) -> torch.Tensor:
        """Give silu(gate) · up of [rows, 2 · inner]."""
        gated = projected.new_empty((len(projected), projected.shape[1] // 2))
        gate(array(projected), array(gated))
        return gated


class CompiledAttention:
    """Attention row by row, in the order of positions, over prefixes held by reference."""

    def __init__(
        self, memory: torch.Tensor, places: Places, rows: list[Row], fed: bool = True
    ) -> None:
        """Prepare for one forward pass.

        Parameters
        ----------
        memory
            [layers, 2, rows, key heads, columns, width]
        places
            Where the pass writes.
        rows
            What each token sees of a prefix and of its own row.
        fed
            Whether a token sees itself in its own row, behind what the row holds.
        """
        self.memory, self.places = memory, places
        states = [None if row.prefix is None else row.prefix.state for row in rows]
        addresses = np.array([0 if state is None else state.data_ptr() for state in states])
        order = np.argsort(addresses, kind="stable")
        changes = np.flatnonzero(np.diff(addresses[order])) + 1
        self._sight = Sight(
            own=np.array([row.own + fed for row in rows]),
            addresses=addresses,
            held=np.array([0 if state is None else state.shape[3] for state in states]),
            shared=np.array([row.shared for row in rows]),
            order=order,
            starts=np.concatenate([[0], changes, [len(rows)]]),
        )

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [tokens, heads, width]; gives [tokens, heads · width]."""
        out = torch.empty_like(query)
        attend(array(query), array(self.memory), layer, self._sight, array(out))
        return out.flatten(1)

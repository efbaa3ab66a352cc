"""The compiled kernels as the forward pass asks for them: tensors in, tensors out."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from refork.engines.torch.llama.compiled.attention import attend
from refork.engines.torch.llama.compiled.elementwise import add_norm, gate, place
from refork.engines.torch.llama.forward import Attention, Places, Table
from refork.engines.torch.llama.memory import Row


def array(tensor: torch.Tensor) -> NDArray[Any]:
    """Give a tensor's memory as numpy has it; bfloat16 as uint16."""
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    return tensor.numpy()


class CompiledElementwise:
    """`Elementwise` in one pass over each row."""

    def add_norm(
        self,
        stream: torch.Tensor,
        update: torch.Tensor | None,
        weight: torch.Tensor,
        epsilon: float,
    ) -> torch.Tensor:
        """Add the update to the stream [rows, hidden] in place; gives its root mean square norm."""
        normed = torch.empty_like(stream)
        own = array(stream)
        other = own if update is None else array(update)
        add_norm(own, other, update is not None, array(weight), epsilon, array(normed))
        return normed

    def place(
        self,
        projected: torch.Tensor,
        norms: tuple[torch.Tensor, torch.Tensor],
        epsilon: float,
        table: Table,
        attention: Attention,
        layer: int,
    ) -> torch.Tensor:
        """Norm, rotate, write keys and values to the memory; gives queries [rows, heads, width]."""
        memory, places = attention.memory, attention.places
        key_heads, width = memory.shape[3], memory.shape[5]
        heads = projected.shape[1] // width - 2 * key_heads
        query = projected.new_empty((len(projected), heads, width))
        place(
            array(projected),
            (array(norms[0]), array(norms[1])),
            epsilon,
            (array(table[0]), array(table[1])),
            (array(places.positions), array(places.rows), array(places.columns)),
            array(memory),
            layer,
            array(query),
        )
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
        self._prefixes = (
            np.array([0 if state is None else state.data_ptr() for state in states]),
            np.array([0 if state is None else state.shape[3] for state in states]),
            np.array([row.shared for row in rows]),
        )
        self._own = np.array([row.own + fed for row in rows])
        order = np.argsort(self._prefixes[0], kind="stable")
        changes = np.flatnonzero(np.diff(self._prefixes[0][order])) + 1
        self._groups = order, np.concatenate([[0], changes, [len(rows)]])

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [tokens, heads, width]; gives [tokens, heads · width]."""
        out = torch.empty_like(query)
        attend(
            array(query),
            array(self.memory),
            layer,
            self._own,
            self._prefixes,
            self._groups,
            array(out),
        )
        return out.flatten(1)

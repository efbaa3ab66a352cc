"""One forward pass over rows of tokens; who attends to what is the caller's."""

from dataclasses import dataclass
from typing import Protocol

import torch

from refork.engines.torch.llama.rotary import Rotary, Table
from refork.engines.torch.llama.weights import Weights


@dataclass(frozen=True)
class Places:
    """Where the tokens of a forward pass stand; int64 [tokens] on the model's device."""

    positions: torch.Tensor  # in their sequences
    rows: torch.Tensor  # of the memory
    columns: torch.Tensor  # of the memory
    furthest: int  # position


class Attention(Protocol):
    """What the tokens of one forward pass see."""

    memory: torch.Tensor
    """Where keys and values are written [layers, 2, rows, key heads, columns, width]."""
    places: Places

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        """Attend with rotated queries [tokens, heads, width]; gives [tokens, heads · width]."""
        ...


class Elementwise(Protocol):
    """What stands between the linear maps; a row's numbers depend on that row alone."""

    def add_norm(
        self, stream: torch.Tensor, update: torch.Tensor | None, weight: torch.Tensor
    ) -> torch.Tensor:
        """Add the update to the stream [rows, hidden] in place; gives its root mean square norm."""
        ...

    def place(
        self,
        projected: torch.Tensor,
        norms: tuple[torch.Tensor, torch.Tensor],
        table: Table,
        attention: Attention,
        layer: int,
    ) -> torch.Tensor:
        """Split [rows, (heads + 2 · key heads) · width], norm and rotate, write to the memory.

        Gives the queries [rows, heads, width].
        """
        ...

    def gate(self, projected: torch.Tensor) -> torch.Tensor:
        """Give silu(gate) · up of [rows, 2 · inner]."""
        ...


@dataclass(frozen=True)
class Network:
    """A decoder with its kernels."""

    weights: Weights
    rotary: Rotary
    elementwise: Elementwise

    def run(self, tokens: torch.Tensor, attention: Attention) -> torch.Tensor:
        """Feed int64 [tokens]; gives the normalised stream behind the last layer."""
        stream = self.weights.embedding[tokens]
        table = self.rotary.table(attention.places.furthest + 1)
        between, update = self.elementwise, None
        for index, layer in enumerate(self.weights.layers):
            normed = between.add_norm(stream, update, layer.input_norm)
            projected = layer.query_key_value(normed)
            query = between.place(projected, layer.head_norms, table, attention, index)
            update = layer.attention_out(attention.attend(index, query))
            normed = between.add_norm(stream, update, layer.inner_norm)
            update = layer.down(between.gate(layer.gate_up(normed)))
        return between.add_norm(stream, update, self.weights.norm)

    def logits(self, normed: torch.Tensor) -> torch.Tensor:
        """Give the logits float32 [rows, vocabulary] of rows of the normalised stream."""
        return self.weights.head(normed).float()

"""The weights of a decoder, fused for the fast path and taken over from a transformers model."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from refork.engines.torch.llama.architecture import Architecture
from refork.engines.torch.llama.linears import Linear, TiledLinear, WideLinear

SECOND_COPY = 512 * 2**20
"""Bytes up to which a head that is the embedding is packed, and so held twice."""


@dataclass(frozen=True)
class Layer:
    """One layer."""

    input_norm: torch.Tensor  # [hidden]
    query_key_value: Linear  # hidden -> (heads + 2 · key heads) · width
    head_norms: tuple[torch.Tensor, torch.Tensor]  # [width] of queries and of keys; [0] where none
    attention_out: Linear  # heads · width -> hidden
    inner_norm: torch.Tensor  # [hidden]
    gate_up: Linear  # hidden -> 2 · inner
    down: Linear  # inner -> hidden


@dataclass(frozen=True)
class Weights:
    """All weights of a decoder."""

    embedding: torch.Tensor  # [vocabulary, hidden]
    layers: list[Layer]
    norm: torch.Tensor  # [hidden]
    head: Linear  # hidden -> vocabulary

    def tiled(self) -> "Weights":
        """Give the same weights, every linear map on tiles of a fixed number of rows."""
        layers = [
            replace(
                layer,
                query_key_value=TiledLinear(layer.query_key_value),
                attention_out=TiledLinear(layer.attention_out),
                gate_up=TiledLinear(layer.gate_up),
                down=TiledLinear(layer.down),
            )
            for layer in self.layers
        ]
        return replace(self, layers=layers, head=TiledLinear(self.head))


def take_weights(model: Any, architecture: Architecture) -> Weights:
    """Take the weights out of a transformers model, a layer at a time, and leave it empty.

    Beyond the weights themselves, memory holds no more than one layer and, where the head is the
    embedding and small, a second copy of it.
    """
    core = model.model
    layers = []
    for index in range(architecture.layers):
        layers.append(_layer(core.layers[index], architecture))
        core.layers[index] = torch.nn.Identity()
    embedding = core.embed_tokens.weight.detach()
    core.embed_tokens = torch.nn.Identity()
    small = embedding.numel() * embedding.element_size() <= SECOND_COPY
    head = _fuse(model.lm_head, packed=small or not architecture.tied)
    model.lm_head = torch.nn.Identity()
    return Weights(embedding, layers, core.norm.weight.detach(), head)


def _layer(layer: Any, architecture: Architecture) -> Layer:
    attention, network = layer.self_attn, layer.mlp
    none = layer.input_layernorm.weight.detach().new_empty(0)
    norms = (none, none)
    if architecture.head_norms:
        norms = (attention.q_norm.weight.detach(), attention.k_norm.weight.detach())
    return Layer(
        input_norm=layer.input_layernorm.weight.detach(),
        query_key_value=_fuse(attention.q_proj, attention.k_proj, attention.v_proj),
        head_norms=norms,
        attention_out=_fuse(attention.o_proj),
        inner_norm=layer.post_attention_layernorm.weight.detach(),
        gate_up=_fuse(network.gate_proj, network.up_proj),
        down=_fuse(network.down_proj),
    )


def _fuse(*modules: Any, packed: bool = True) -> Linear:
    """Make one linear map of several with the same input."""
    biases = [module.bias for module in modules if module.bias is not None]
    bias = _joined(biases) if biases else None
    return WideLinear(_joined([module.weight for module in modules]), bias, packed)


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0].detach() if len(parts) == 1 else torch.cat([part.detach() for part in parts])

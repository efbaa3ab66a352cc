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
    embedding, norm = _own(core.embed_tokens.weight), _own(core.norm.weight)
    core.embed_tokens, core.norm = torch.nn.Identity(), torch.nn.Identity()
    if architecture.tied:
        small = embedding.nbytes <= SECOND_COPY
        head: Linear = WideLinear(embedding, None, packed=small)
    else:
        head = _fuse(model.lm_head)
    model.lm_head = torch.nn.Identity()
    return Weights(embedding, layers, norm, head)


def _layer(layer: Any, architecture: Architecture) -> Layer:
    attention, network = layer.self_attn, layer.mlp
    input_norm = _own(layer.input_layernorm.weight)
    none = input_norm.new_empty(0)
    norms = (none, none)
    if architecture.head_norms:
        norms = (_own(attention.q_norm.weight), _own(attention.k_norm.weight))
    return Layer(
        input_norm=input_norm,
        query_key_value=_fuse(attention.q_proj, attention.k_proj, attention.v_proj),
        head_norms=norms,
        attention_out=_fuse(attention.o_proj),
        inner_norm=_own(layer.post_attention_layernorm.weight),
        gate_up=_fuse(network.gate_proj, network.up_proj),
        down=_fuse(network.down_proj),
    )


def _fuse(*modules: Any) -> Linear:
    """Make one linear map of several with the same input."""
    biases = [module.bias.detach() for module in modules if module.bias is not None]
    weight = torch.cat([module.weight.detach() for module in modules])
    return WideLinear(weight, torch.cat(biases) if biases else None, packed=True)


def _own(weight: torch.Tensor) -> torch.Tensor:
    """Copy a weight: a view would keep the whole file in memory that it was mapped from."""
    return weight.detach().clone()

"""Which decoders the fast path can run: read off the configuration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""Others with configurations alike multiply, clip or norm where these do not."""
ROPE_TYPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings whose angles depend on the position alone, not on the sequence's length."""
ACTIVATIONS = ("silu", "swish")


@dataclass(frozen=True)
class Architecture:
    """The numbers of a decoder of the Llama family; whether it has biases, its weights tell."""

    model_type: str
    layers: int
    heads: int
    key_heads: int
    width: int  # of a head
    hidden: int
    inner: int  # of the feed-forward network
    vocabulary: int
    epsilon: float  # of the root mean square norms
    head_norms: bool  # of queries and keys, before they are rotated
    tied: bool  # the head is the embedding


def read_architecture(config: Any) -> Architecture | str:
    """Read a decoder's configuration; where the fast path cannot run it, say why in words."""
    refusal = next(_refusals(config), None)
    if refusal is not None:
        return refusal
    heads = config.num_attention_heads
    return Architecture(
        model_type=config.model_type,
        layers=config.num_hidden_layers,
        heads=heads,
        key_heads=config.num_key_value_heads or heads,
        width=_width(config),
        hidden=config.hidden_size,
        inner=config.intermediate_size,
        vocabulary=config.vocab_size,
        epsilon=config.rms_norm_eps,
        head_norms=config.model_type == "qwen3",
        tied=config.tie_word_embeddings,
    )


def _refusals(config: Any) -> Iterator[str]:
    """Say what stands against the fast path, one thing after the other."""
    if config.model_type not in MODEL_TYPES:
        yield f"model_type {config.model_type!r} is not one of {', '.join(MODEL_TYPES)}"
    if config.hidden_act not in ACTIVATIONS:
        yield f"hidden_act {config.hidden_act!r} is not one of {', '.join(ACTIVATIONS)}"
    rope = config.rope_parameters or {}
    kind = rope.get("rope_type", "default")
    if kind not in ROPE_TYPES:
        yield f"rope_type {kind!r} is not one of {', '.join(ROPE_TYPES)}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        yield "partial_rotary_factor: only a part of each head is rotated"
    if getattr(config, "quantization_config", None) is not None:
        yield "quantization_config: the weights are quantised"
    if _width(config) % 2:
        yield f"a head of odd width ({_width(config)}) cannot be rotated by halves"
    heads, key_heads = config.num_attention_heads, config.num_key_value_heads
    if key_heads and heads % key_heads:
        yield f"{heads} heads cannot share {key_heads} key heads evenly"
    yield from _windows(config)


def _width(config: Any) -> int:
    """Width of a head, as transformers falls back on it."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(width)


def _windows(config: Any) -> Iterator[str]:
    """Say where a layer looks back over less than the context."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    slides = types is None or "sliding_attention" in types
    if window is not None and slides and window < config.max_position_embeddings:
        yield (
            f"sliding_window: layers look back over {window} tokens "
            f"of a context of {config.max_position_embeddings}"
        )

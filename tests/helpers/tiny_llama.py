"""Small decoders of the Llama family with lively random weights, in memory."""

from typing import Any

import torch
import transformers

from refork.engines.torch.llama.architecture import Architecture, read_architecture
from refork.engines.torch.llama.decoder import LlamaDecoder
from refork.engines.torch.loading import Loaded

CONTEXT_LENGTH = 256
VOCABULARY = 101
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT_LENGTH,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


def _llama(**changes: Any) -> Any:
    return transformers.LlamaConfig(**SIZES | changes)


def _rope(kind: str, **numbers: Any) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": 500.0, "factor": 4.0, **numbers}


CONFIGS: dict[str, Any] = {
    "llama": _llama(),
    "llama-tied": _llama(tie_word_embeddings=True),
    "llama-one-key-head": _llama(num_key_value_heads=1),
    "llama-as-many-key-heads": _llama(num_key_value_heads=4),
    "llama-biases": _llama(attention_bias=True, mlp_bias=True),
    "llama-wide-heads": _llama(head_dim=34),
    "llama-linear": _llama(rope_parameters=_rope("linear")),
    "llama-3": _llama(
        rope_parameters=_rope(
            "llama3",
            original_max_position_embeddings=64,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
        )
    ),
    "llama-yarn": _llama(rope_parameters=_rope("yarn", original_max_position_embeddings=64)),
    "smollm2": _llama(
        hidden_size=144,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
    ),
    "mistral": transformers.MistralConfig(**SIZES, head_dim=20, sliding_window=None),
    "qwen2": transformers.Qwen2Config(**SIZES),
    "qwen3": transformers.Qwen3Config(**SIZES, head_dim=16),
    "qwen3-biases": transformers.Qwen3Config(**SIZES, head_dim=32, attention_bias=True),
}
"""By name: every feature that the fast path knows."""


def make_model(config: Any, dtype: torch.dtype = torch.float32) -> Any:
    """Make a model of random weights, in which norms and biases do something too."""
    torch.manual_seed(0)
    factory: Any = transformers.AutoModelForCausalLM
    model = factory.from_config(config, dtype=dtype).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:
                weight.add_(0.3 * torch.randn_like(weight))
    return model


def make_loaded(config: Any, dtype: torch.dtype = torch.float32) -> Loaded:
    """Give a model as `loading` does."""
    return Loaded(
        model=make_model(config, dtype),
        config=config,
        device=torch.device("cpu"),
        dtype=dtype,
        context_length=CONTEXT_LENGTH,
        vocabulary=config.vocab_size,
        end_tokens=frozenset({1}),
        digest="0" * 32,
    )


def make_decoder(
    name: str, dtype: torch.dtype, kernels: str, compiled: bool = True
) -> LlamaDecoder:
    """Make the decoder of a config of CONFIGS, with its compiled or its plain kernels."""
    architecture = read_architecture(CONFIGS[name])
    assert isinstance(architecture, Architecture)
    return LlamaDecoder(make_loaded(CONFIGS[name], dtype), architecture, kernels, compiled)


def make_tokens(count: int, seed: int = 0) -> list[int]:
    """Draw tokens evenly."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, VOCABULARY, (count,), generator=generator).tolist()

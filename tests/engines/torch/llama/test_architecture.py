"""Which decoders the fast path takes, and the words for those it does not."""

from typing import Any

import pytest
import transformers

from helpers.tiny_llama import CONFIGS, CONTEXT_LENGTH, SIZES
from refork.engines.torch.llama.architecture import Architecture, read_architecture

LAYERS = ["sliding_attention", "full_attention"]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_family_is_taken(name: str) -> None:
    config, found = CONFIGS[name], read_architecture(CONFIGS[name])
    assert isinstance(found, Architecture)
    assert (found.layers, found.heads) == (2, config.num_attention_heads)
    assert found.key_heads == config.num_key_value_heads
    assert found.head_norms == name.startswith("qwen3")
    assert found.tied == config.tie_word_embeddings
    assert found.epsilon == config.rms_norm_eps


def test_the_width_of_a_head_is_given_or_follows() -> None:
    widths = {"llama": 12, "llama-wide-heads": 34, "qwen2": 12, "qwen3": 16, "mistral": 20}
    for name, width in widths.items():
        found = read_architecture(CONFIGS[name])
        assert isinstance(found, Architecture)
        assert found.width == width


def test_a_window_as_long_as_the_context_is_none() -> None:
    config = transformers.MistralConfig(**SIZES, sliding_window=CONTEXT_LENGTH)
    assert isinstance(read_architecture(config), Architecture)
    unused = transformers.Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=8)
    assert set(unused.layer_types or ()) == {"full_attention"}
    assert isinstance(read_architecture(unused), Architecture)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (transformers.GPT2Config(), "model_type 'gpt2' is not one of llama, mistral, qwen2, qwen3"),
        (transformers.GraniteConfig(**SIZES), "model_type 'granite' is not one of"),
        (transformers.CohereConfig(**SIZES), "model_type 'cohere' is not one of"),
        (transformers.GemmaConfig(**SIZES), "model_type 'gemma' is not one of"),
        (transformers.Phi3Config(**SIZES), "model_type 'phi3' is not one of"),
        (
            transformers.LlamaConfig(**SIZES, hidden_act="gelu"),
            "hidden_act 'gelu' is not one of silu, swish",
        ),
        (
            transformers.LlamaConfig(
                **SIZES,
                rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
            ),
            "rope_type 'dynamic' is not one of default, linear, llama3, yarn",
        ),
        (
            transformers.LlamaConfig(
                **SIZES,
                rope_parameters={
                    "rope_type": "linear",
                    "rope_theta": 1e4,
                    "factor": 2.0,
                    "partial_rotary_factor": 0.5,
                },
            ),
            "partial_rotary_factor: only a part of each head is rotated",
        ),
        (
            transformers.LlamaConfig(**SIZES | {"hidden_size": 12, "num_key_value_heads": 4}),
            "a head of odd width (3) cannot be rotated by halves",
        ),
        (
            transformers.LlamaConfig(**SIZES | {"num_key_value_heads": 3}),
            "4 heads cannot share 3 key heads evenly",
        ),
        (
            transformers.MistralConfig(**SIZES, sliding_window=8),
            "sliding_window: layers look back over 8 tokens of a context of 256",
        ),
        (
            transformers.Qwen2Config(
                **SIZES, use_sliding_window=True, sliding_window=8, layer_types=LAYERS
            ),
            "sliding_window: layers look back over 8 tokens of a context of 256",
        ),
    ],
    ids=lambda part: getattr(part, "model_type", None),
)
def test_what_the_fast_path_cannot_run_is_said(config: Any, words: str) -> None:
    found = read_architecture(config)
    assert isinstance(found, str)
    assert words in found


def test_quantised_weights_are_not_taken() -> None:
    config = transformers.LlamaConfig(**SIZES)
    config.quantization_config = {"quant_method": "bitsandbytes"}
    assert read_architecture(config) == "quantization_config: the weights are quantised"

"""Models of random weights that run in milliseconds, with a tokenizer of bytes."""

from pathlib import Path
from typing import Any

import torch
import transformers

from helpers.tiny_tokenizer import SPECIAL, write_tokenizer

CONTEXT_LENGTH = 256
SPREAD = 0.3
"""Of the weights: wide enough for predictions that depend on all that came before."""
SIZES: dict[str, Any] = {
    "vocab_size": 260,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": SPREAD,
}
"""What the configurations of most families call alike."""


def write_model(folder: Path, config: transformers.PreTrainedConfig) -> None:
    """Write a model of random weights and the tokenizer as any Hugging Face folder has them."""
    write_tokenizer(folder)
    torch.manual_seed(0)
    model: Any = transformers.AutoModelForCausalLM
    model.from_config(config).save_pretrained(folder)


def write_tiny_model(folder: Path) -> None:
    """Write the tiny Llama model."""
    write_model(
        folder,
        transformers.LlamaConfig(
            **_sizes(folder) | {"num_attention_heads": 6}, num_key_value_heads=2
        ),
    )


def write_wide_model(folder: Path) -> None:
    """Write a tiny Llama model whose heads are as wide as vLLM's kernels want them."""
    sizes = _sizes(folder) | {"hidden_size": 128}
    write_model(folder, transformers.LlamaConfig(**sizes, num_key_value_heads=2))


def write_tiny_neox(folder: Path) -> None:
    """Write a tiny GPT-NeoX model, of a family that the fast path does not know."""
    write_model(folder, transformers.GPTNeoXConfig(**_sizes(folder)))


def _sizes(folder: Path) -> dict[str, Any]:
    """Return the sizes of a model of three layers whose tokens are those of the tokenizer."""
    write_tokenizer(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    return SIZES | {
        "num_hidden_layers": 3,
        "max_position_embeddings": CONTEXT_LENGTH,
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.convert_tokens_to_ids(SPECIAL[0]),
        "eos_token_id": tokenizer.eos_token_id,
    }

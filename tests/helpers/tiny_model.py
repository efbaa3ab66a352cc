"""Models of random weights that run in milliseconds, with a tokenizer of bytes."""

from pathlib import Path
from typing import Any

import torch
import transformers

from helpers.tiny_tokenizer import SPECIAL, write_tokenizer

CONTEXT_LENGTH = 256
SPREAD = 0.3
"""Of the weights: wide enough for predictions that depend on all that came before."""


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
            **_tokens(folder),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT_LENGTH,
            initializer_range=SPREAD,
        ),
    )


def write_tiny_neox(folder: Path) -> None:
    """Write a tiny GPT-NeoX model, of a family that the fast path does not know."""
    write_model(
        folder,
        transformers.GPTNeoXConfig(
            **_tokens(folder),
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=CONTEXT_LENGTH,
            initializer_range=SPREAD,
        ),
    )


def _tokens(folder: Path) -> dict[str, Any]:
    """Size of the vocabulary, first and last token of a text."""
    write_tokenizer(folder)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    return {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.convert_tokens_to_ids(SPECIAL[0]),
        "eos_token_id": tokenizer.eos_token_id,
    }

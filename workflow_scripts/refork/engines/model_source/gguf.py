"""A GGUF file expanded to the plain Hugging Face folder that every engine loads."""

import json
import sys
from pathlib import Path

import torch
from gguf import GGUFReader
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from refork.data.files import write_text
from refork.errors import ReforkError


def expand_gguf(file: Path, folder: Path) -> None:
    """Write config, generation config, weights (safetensors, bfloat16) and tokenizer into `folder`.

    Runs in bfloat16 and in float32 so compute with the same weights.

    Raises
    ------
    ReforkError
        The file is no GGUF file of a causal language model.
    """
    print(f"model: expanding {file.name} (half a minute)", file=sys.stderr, flush=True)
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    except (ValueError, KeyError, ImportError, OSError, RuntimeError) as error:
        raise ReforkError(f"{file}: cannot be expanded from GGUF ({error})") from error
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if _pre_tokenizer(file) == "smollm":
        _split_digits(folder / "tokenizer.json")


def _pre_tokenizer(file: Path) -> str:
    field = GGUFReader(file).get_field("tokenizer.ggml.pre")
    return str(field.contents()) if field else ""


def _split_digits(path: Path) -> None:
    """Put back what the conversion leaves out: SmolLM's tokenizer splits at every digit first."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    write_text(path, json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, indent=2))

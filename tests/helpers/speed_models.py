"""Models and lengths of the throughput benchmark."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from helpers.repository import ROOT
from helpers.tiny_tokenizer import write_tokenizer

STORES = ROOT.parent / "shared" / "data" / "forking-fast" / "llama"
LENGTHS = (2, 13, 25, 40, 57, 75, 93, 112, 132, 155, 180, 210, 242, 276, 330, 400)
"""Tokens of continuations where none are given or recorded: about as an 8B model answers."""
LLAMA_3_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
"""config.json of Meta-Llama-3-8B, without its weights."""


def write_dummy_model(folder: Path) -> None:
    """Write a folder that vLLM loads with `load_format: dummy`; its tokenizer is never used."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(LLAMA_3_8B))


def recorded_lengths(given: Path | None) -> Sequence[int]:
    """Return lengths of continuations: a JSON list, else those of recorded stores, else a few."""
    if given is not None:
        lengths: list[int] = json.loads(given.read_text())
        return lengths
    paths = sorted(STORES.glob("*.json.gz"))
    if not paths:
        return LENGTHS
    stores = (json.loads(gzip.decompress(path.read_bytes())) for path in paths)
    return [
        length for store in stores for branch in store["branches"] for length in branch["cont_lens"]
    ]


def drawn_lengths(lengths: Sequence[int], count: int) -> list[int]:
    """Draw so many of the lengths, always the same."""
    drawn: list[int] = np.random.default_rng(0).choice(np.asarray(lengths), count).tolist()
    return [max(1, length) for length in drawn]

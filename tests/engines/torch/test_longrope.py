"""Rotary embeddings that change with the longest row of a batch."""

from pathlib import Path

import pytest
import transformers

from helpers.engines import make_subject
from helpers.requests import fresh
from helpers.tiny_model import write_model
from refork.errors import EngineError


def test_a_longrope_model_is_run_within_its_original_context(tmp_path: Path) -> None:
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "original_max_position_embeddings": 64,
        "short_factor": [1.0] * 6,
        "long_factor": [4.0] * 6,
    }
    config = transformers.Phi3Config(
        vocab_size=260,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        original_max_position_embeddings=64,
        rope_parameters=rope,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    write_model(tmp_path, config)
    engine = make_subject("torch", "float32", tmp_path, 1e-4).engine
    assert engine.facts.context_length == 64
    with pytest.raises(EngineError, match=r"question q1, .*context of 64 tokens"):
        engine.run_group(fresh([[5] * 10, [5] * 60], 1, max_tokens=8), None, None)

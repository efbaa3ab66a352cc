"""Which models are loaded, on which path, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers.tiny_model import SIZES, write_model
from helpers.tiny_tokenizer import write_tokenizer
from refork.engines.interface import EngineSettings
from refork.engines.torch.decoder import Decoder
from refork.engines.torch.loading import load
from refork.engines.torch.paths import open_decoder
from refork.errors import EngineError

SETTINGS = EngineSettings(kind="torch", device="cpu", dtype="float32", threads=1, batch_rows=4)


def opened(folder: Path, **changes: Any) -> Decoder:
    """Open a model."""
    return open_decoder(replace(SETTINGS, **changes), folder)


def test_models_take_the_fast_path_where_that_knows_them(tiny_model: Path, tiny_neox: Path) -> None:
    assert opened(tiny_model).facts["path"] == "llama"
    assert opened(tiny_neox).facts["path"] == "dynamic"
    exact = opened(tiny_model, kernels="batch_invariant")
    assert exact.invariant
    assert exact.facts["kernels"] == "batch_invariant"


def test_code_that_came_with_a_model_is_what_runs(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(tiny_model, folder)
    code = (
        "from transformers import LlamaForCausalLM\n\n\nclass Mine(LlamaForCausalLM):\n    pass\n"
    )
    (folder / "modeling_mine.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling_mine.Mine"}
    (folder / "config.json").write_text(json.dumps(config))
    assert opened(folder).facts["path"] == "llama"
    assert opened(folder, trust_remote_code=True).facts["path"] == "dynamic"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_states_say_of_which_model_and_dtype_they_are(tiny_model: Path, dtype: str) -> None:
    kind = opened(tiny_model, dtype=dtype).kind
    assert (kind.dtype, kind.layers, kind.heads, kind.width) == (dtype, 3, 2, 8)
    again = opened(tiny_model, dtype=dtype, kernels="batch_invariant").kind
    assert again == kind


def test_every_end_token_of_model_and_tokenizer_ends(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ends"
    shutil.copytree(tiny_model, folder)
    own = opened(tiny_model).end_tokens
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 7]}))
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token_id in own
    assert opened(folder).end_tokens == {3, 7, tokenizer.eos_token_id}


def test_another_weight_is_another_model(tiny_model: Path, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1
    model.save_pretrained(tmp_path)
    assert load(SETTINGS, tmp_path).digest != load(SETTINGS, tiny_model).digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "float16"}, r"engine\.dtype: 'float16' is not one of bfloat16, float32"),
        ({"device": "tpu"}, r"engine\.device: 'tpu' is not one of cpu, cuda"),
        ({"kernels": "fast"}, r"engine\.kernels: 'fast' is not one of stock, batch_invariant"),
    ],
)
def test_unknown_settings_are_refused(
    tiny_model: Path, tiny_neox: Path, changes: dict[str, Any], words: str
) -> None:
    for folder in (tiny_model, tiny_neox):
        with pytest.raises(EngineError, match=words):
            opened(folder, **changes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said(tiny_model: Path) -> None:
    with pytest.raises(EngineError, match="torch sees no GPU"):
        opened(tiny_model, device="cuda")


def test_batch_invariant_kernels_are_refused_where_the_fast_path_cannot_run(
    tiny_neox: Path,
) -> None:
    words = "batch_invariant needs the fast path, which cannot run GPTNeoXForCausalLM: model_type"
    with pytest.raises(EngineError, match=words):
        opened(tiny_neox, kernels="batch_invariant")


def test_a_folder_without_weights_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_bytes((tiny_model / "config.json").read_bytes())
    with pytest.raises(EngineError, match="the model cannot be loaded"):
        opened(tmp_path)


def test_a_folder_without_all_weights_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    shutil.copytree(tiny_model, folder)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError, match=r"lacks 1 weights .*: model\.layers\.1\.mlp\.up_proj"):
        opened(folder)


def test_a_model_of_another_kind_under_a_causal_name_is_refused(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    bert: Any = transformers.BertModel
    bert(transformers.BertConfig(**SIZES)).save_pretrained(tmp_path)
    with pytest.raises(EngineError, match=r"the folder lacks \d+ weights .*: cls\.predictions"):
        opened(tmp_path)


def test_a_state_that_is_more_than_keys_and_values_is_refused(tmp_path: Path) -> None:
    config = transformers.Qwen3NextConfig(
        **SIZES,
        num_key_value_heads=2,
        head_dim=12,
        layer_types=["linear_attention", "full_attention"],
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=24,
        linear_num_value_heads=2,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )
    write_model(tmp_path, config)
    with pytest.raises(EngineError, match="more state than keys and values"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (transformers.BertConfig(**SIZES), "BertLMHeadModel .* depends on the tokens behind it"),
        (
            transformers.RwkvConfig(
                vocab_size=260, hidden_size=48, attention_hidden_size=48, num_hidden_layers=2
            ),
            r"RwkvForCausalLM .* the shapes \[\], not one",
        ),
        (
            transformers.DeepseekV3Config(
                **SIZES,
                num_key_value_heads=4,
                q_lora_rank=16,
                kv_lora_rank=16,
                qk_rope_head_dim=8,
                qk_nope_head_dim=16,
                v_head_dim=12,
                n_routed_experts=4,
                n_group=1,
                topk_group=1,
                num_experts_per_tok=2,
                moe_intermediate_size=32,
            ),
            r"DeepseekV3ForCausalLM .* the shapes \[\(1, 1, 8\), \(1, 1, 16\)\], not one",
        ),
    ],
    ids=["both-ways", "recurrent", "latent"],
)
def test_what_neither_path_can_run_is_refused(
    config: transformers.PreTrainedConfig, words: str, tmp_path: Path
) -> None:
    write_model(tmp_path, config)
    with pytest.raises(EngineError, match=f"the architecture {words}.* What runs is a causal"):
        opened(tmp_path)


def test_what_is_no_causal_language_model_is_refused_in_a_line(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    transformers.T5Config().save_pretrained(tmp_path)
    with pytest.raises(EngineError, match="'t5' is not a causal language model") as refused:
        opened(tmp_path)
    assert len(str(refused.value)) < 300

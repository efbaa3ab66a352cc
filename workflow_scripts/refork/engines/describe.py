"""What an engine is on this machine, told without loading a model.

`python -m refork.engines.describe --kind KIND --device DEVICE` runs in the engine's environment.
"""

import argparse
import importlib.util
import json
import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refork.errors import EngineError, exit_in_words

# Raised by one when an engine of ours draws other tokens from the same requests.
ENGINE_VERSIONS = {"torch": 2, "synthetic": 1}

_TORCH_PACKAGES = ("torch", "transformers", "numba")
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


def describe(kind: str, device: str) -> dict[str, Any]:
    """Settle `auto` and return kind, device, hardware, version and block size of an engine.

    Hardware is what the last bits of a result depend on: two kinds of machine are two engines. The
    block size is the number of tokens by which a decode-time state is resumed: 1 where any
    position can be resumed.

    Raises
    ------
    EngineError
        The engine, or the device, is not there.
    """
    if kind == "auto":
        kind = "torch"
    if kind == "synthetic":
        return _described(kind, "cpu", "any", ())
    for package in _TORCH_PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise EngineError(
                f"engine.kind: {package} is not installed in this environment; install "
                "envs/torch.txt, or name the interpreter that has it in engine.python"
            )
    import torch  # noqa: PLC0415 - only there if this engine is

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise EngineError(
            "engine.device: is 'cuda', but torch finds no GPU here; allowed: auto, cpu"
        )
    hardware = torch.cuda.get_device_name() if device == "cuda" else _processor()
    chosen = [f"{name}={os.environ[name]}" for name in _CHOOSERS if name in os.environ]
    return _described(kind, device, " ".join([hardware, *chosen]), _TORCH_PACKAGES)


def _processor() -> str:
    """Return the processor as LLVM compiles for it, and what oneDNN chooses by, sorted."""
    import llvmlite.binding  # noqa: PLC0415 - only there if this engine is

    cpuinfo = Path("/proc/cpuinfo")
    found = _INSTRUCTIONS.findall(cpuinfo.read_text()) if cpuinfo.exists() else []
    instructions = sorted(set(found)) or [platform.machine()]
    return " ".join([llvmlite.binding.get_host_cpu_name(), *instructions])


def _described(kind: str, device: str, hardware: str, packages: Sequence[str]) -> dict[str, Any]:
    versions = [f"{package} {version(package)}" for package in packages]
    return {
        "kind": kind,
        "device": device,
        "hardware": hardware,
        "version": ", ".join([f"{kind} engine {ENGINE_VERSIONS[kind]}", *versions]),
        "block_size": 1,
    }


@exit_in_words
def main() -> int:
    """Print the description as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--device", required=True)
    arguments = parser.parse_args()
    print(json.dumps(describe(arguments.kind, arguments.device)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

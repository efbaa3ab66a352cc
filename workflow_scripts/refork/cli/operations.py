"""`refork operations`: which operations of a model depend on what stands beside a row.

It needs no study and no model: weights and activations are drawn. Run it with the interpreter of
the engine's environment: `PYTHON -m refork.cli.main operations`.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

from refork.cli.operations_table import print_operations
from refork.engines.describe import installed_vllm
from refork.errors import ReforkError, allowed_names

if TYPE_CHECKING:
    from refork.engines.vllm.operations.comparing import Absent, Finding

DTYPES = ("bfloat16", "float32")
KERNELS = ("stock", "batch_invariant")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s"
    )
    parser.add_argument(
        "--model", action="append", metavar="NAME", help="sizes of a model; may be given again"
    )
    parser.add_argument(
        "--dtype", action="append", choices=DTYPES, help="may be given again; default: all"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="OPERATION", help="names that begin so"
    )
    parser.add_argument(
        "--kernels",
        choices=KERNELS,
        default="stock",
        help="batch_invariant: as vLLM sets up a process for it; default: %(default)s",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Probe the operations and say what was found."""
    device = _settled_device(arguments.device)
    if arguments.kernels == "batch_invariant":
        _use_batch_invariant(device)
    results, vllm = _probed(arguments, device), installed_vllm()
    about = {
        "device": device,
        "hardware": _hardware(device),
        "kernels": arguments.kernels,
        "torch": version("torch"),
        "vllm": vllm and vllm[1],
    }
    if arguments.json:
        print(json.dumps(_record(about, list(results)), indent=2, allow_nan=False))
        return 0
    print_operations(about, results)
    return 0


def _probed(arguments: argparse.Namespace, device: str) -> "Iterator[Finding | Absent]":
    import torch  # noqa: PLC0415 - slow, and not in every environment

    from refork.engines.vllm.operations.models import MODELS  # noqa: PLC0415 - as torch
    from refork.engines.vllm.operations.probe import probe_operations  # noqa: PLC0415 - as torch

    names = arguments.model or list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ReforkError(f"--model {unknown[0]}: {allowed_names(unknown[0], MODELS)}")
    return (
        found
        for name in names
        for dtype in arguments.dtype or DTYPES
        for found in probe_operations(
            MODELS[name], device, getattr(torch, dtype), chosen=arguments.only
        )
    )


def _settled_device(device: str) -> str:
    try:
        import torch  # noqa: PLC0415 - slow, and not in every environment
    except ImportError as error:
        raise ReforkError(
            "torch is not installed in this environment; run this with the interpreter of the "
            "engine's environment: PYTHON -m refork.cli.main operations"
        ) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise ReforkError("--device cuda: torch finds no GPU here; allowed: auto, cpu")
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def _use_batch_invariant(device: str) -> None:
    from refork.engines.vllm.operations.vllm_parts import (  # noqa: PLC0415 - imports vLLM
        AbsentError,
        use_batch_invariant_kernels,
    )

    if device != "cuda":
        raise ReforkError("--kernels batch_invariant: vLLM has such kernels for GPUs alone")
    try:
        use_batch_invariant_kernels()
    except AbsentError as error:
        raise ReforkError(f"--kernels batch_invariant: {error}") from error


def _hardware(device: str) -> str:
    import torch  # noqa: PLC0415 - slow, and not in every environment

    if device == "cuda":
        return torch.cuda.get_device_name()
    return str(torch.backends.cpu.get_cpu_capability())


def _record(about: dict[str, str | None], results: "list[Finding | Absent]") -> dict[str, object]:
    rows = [asdict(result) for result in results]
    return {
        **about,
        "findings": [row for row in rows if "reason" not in row],
        "absent": [row for row in rows if "reason" in row],
    }

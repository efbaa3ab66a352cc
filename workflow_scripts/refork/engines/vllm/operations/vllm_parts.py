"""Parts of vLLM by name, wherever its version keeps them."""

import importlib
import inspect
import os
from typing import Any

BATCH_INVARIANT = (
    "vllm.model_executor.layers.batch_invariant",
    "vllm.model_executor.determinism.batch_invariant",
)
"""Modules of the batch-invariant kernels: vLLM 0.24, then 0.32."""


class AbsentError(Exception):
    """A kernel is not here; the message says why."""


def vllm_part(name: str, *modules: str) -> Any:
    """Import a name of vLLM from the first module that has it.

    Raises
    ------
    AbsentError
        None has.
    """
    reasons = []
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, OSError, RuntimeError, AssertionError) as error:
            reasons.append(first_line(error))
    raise AbsentError(reasons[0])


def own_kernel(name: str) -> Any:
    """Return an operation of vLLM's compiled library.

    Raises
    ------
    AbsentError
        vLLM is not here, or was built without it.
    """
    import torch  # noqa: PLC0415 - beside the module that registers the operation

    vllm_part("rms_norm", "vllm._custom_ops")
    # A namespace of torch.ops is made when asked for; a missing operation is an AttributeError.
    if not hasattr(torch.ops._C, name):
        raise AbsentError(f"this build of vLLM has no {name}")
    return getattr(torch.ops._C, name)


def use_batch_invariant_kernels() -> None:
    """Set up this process as vLLM sets up its own where VLLM_BATCH_INVARIANT is 1.

    Raises
    ------
    AbsentError
        vLLM is not here, or sets it up in another way.
    """
    os.environ["VLLM_BATCH_INVARIANT"] = "1"
    begin = vllm_part("init_batch_invariance", *BATCH_INVARIANT)
    if inspect.signature(begin).parameters:
        raise AbsentError("this vLLM sets batch invariance up for one attention backend at a time")
    begin()


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

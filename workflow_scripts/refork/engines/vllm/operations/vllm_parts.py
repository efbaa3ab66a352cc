"""Parts of vLLM by name, wherever its version keeps them."""

import importlib
import inspect
import os
from collections.abc import Callable
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


def vllm_kernel(name: str, *modules: str) -> Callable[..., Any]:
    """Import a function of vLLM that is a kernel; where it refuses, it is absent.

    Kernels refuse sizes and dtypes by assertions and ValueErrors. A call that its version does not
    take is told apart from both: whatever else is raised is a fault and stops the probe.

    Raises
    ------
    AbsentError
        No module has it; and, of a call, it takes other arguments or refuses these.
    """
    kernel = vllm_part(name, *modules)
    taken = inspect.signature(kernel)

    def run(*given: Any, **named: Any) -> Any:
        try:
            taken.bind(*given, **named)
        except TypeError as error:
            raise AbsentError(f"this vLLM's {name} takes other arguments ({error})") from error
        try:
            return kernel(*given, **named)
        except (AssertionError, ValueError) as error:
            raise AbsentError(first_line(error)) from error

    return run


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


def reason_of(error: BaseException) -> str:
    """Say why a kernel is absent: in our words, or by the first line of an error of others."""
    return str(error) if isinstance(error, AbsentError) else first_line(error)


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

"""Probes every operation of a model by every kernel that runs here."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import torch

from refork.engines.vllm.operations.attention import (
    PHASES,
    against_prefill,
    attention_operations,
)
from refork.engines.vllm.operations.comparing import Absent, Compared, Finding, Operation, ways
from refork.engines.vllm.operations.models import ModelShape
from refork.engines.vllm.operations.rowwise import rowwise_operations
from refork.engines.vllm.operations.target import Target
from refork.engines.vllm.operations.vllm_parts import AbsentError, reason_of
from refork.errors import EngineError

ROWS = {"cpu": 256, "cuda": 8192}
"""Rows of the reference: as many as a prefill of several sequences may hold on a GPU."""
SEQUENCES = {"cpu": 16, "cuda": 64}
"""Sequences of the reference."""


@dataclass(frozen=True)
class Extent:
    """How much is probed: rows and sequences of the reference."""

    rows: int
    sequences: int


def probe_operations(
    shape: ModelShape,
    device: str,
    dtype: torch.dtype,
    extent: Extent | None = None,
    chosen: Sequence[str] = (),
) -> Iterator[Finding | Absent]:
    """Probe the operations whose names begin with one of `chosen` (none: all).

    A kernel that is not here, or that refuses these sizes or this dtype, is said to be absent with
    what it says; the others go on.
    """
    extent = extent or Extent(ROWS[device], SEQUENCES[device])
    target = Target(device, dtype)
    label = (shape.name, str(dtype).removeprefix("torch."))
    operations = [
        *rowwise_operations(shape, target, extent.rows),
        *attention_operations(shape, target, extent.sequences),
    ]
    _check_chosen(chosen, dict.fromkeys(name for name, _, _ in operations))
    prefills: dict[str, Operation] = {}
    for name, kernel, make in operations:
        if chosen and not name.startswith(tuple(chosen)):
            continue
        try:
            operation = make()
            found = list(ways(operation))
            if name in PHASES:
                prefills.setdefault(kernel, operation)
                found += _as_prefill(prefills[kernel], operation)
        except refusals() as error:
            yield Absent(*label, name, kernel, reason_of(error))
            continue
        for way, result in found:
            yield Finding(
                *label,
                name,
                kernel,
                operation.unit,
                way,
                result.items,
                result.equal,
                result.largest,
            )


def _as_prefill(prefill: Operation, operation: Operation) -> list[tuple[str, Compared]]:
    """Compare the last tokens of every sequence with those of its whole prefill."""
    if operation is prefill:
        return []
    every = range(operation.items)
    return [("prefill", against_prefill(prefill.compute(every), operation.compute(every)))]


def refusals() -> tuple[type[BaseException], ...]:
    """Return what says that a kernel cannot run here; all else is a fault and stops the probe.

    torch raises RuntimeError, where a library is missing ImportError; Triton's errors have a base
    of their own. What vLLM's functions raise is an `AbsentError` by then, see `vllm_kernel`.
    """
    known: tuple[type[BaseException], ...] = (AbsentError, RuntimeError, ImportError)
    if find_spec("triton") is None:
        return known
    found: type[BaseException] = import_module("triton.errors").TritonError
    return (*known, found)


def _check_chosen(chosen: Sequence[str], names: Collection[str]) -> None:
    """Refuse what no operation's name begins with."""
    for wanted in chosen:
        if not any(name.startswith(wanted) for name in names):
            raise EngineError(f"no operation begins with {wanted!r}; there are {', '.join(names)}")

"""One operation on the same items in other company and at other places, compared bit for bit.

An item is a row, or a sequence. The reference is one call with all of them; the same operation is
then called again, in another order, and with fewer items beside each other. An operation that is
batch-invariant gives every item the same bits each time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

Output: TypeAlias = torch.Tensor | list[torch.Tensor]
"""What every item got: rows of one tensor, or a tensor an item."""
Compute: TypeAlias = Callable[[Sequence[int]], Output]
"""Runs the operation once, on the items of these numbers in this order."""

CALLS = 8
"""Calls of one size at most, spread over the items."""


@dataclass(frozen=True)
class Operation:
    """An operation by one kernel; `unit` says what its items are, rows or sequences."""

    name: str
    kernel: str
    unit: str
    items: int
    compute: Compute


@dataclass(frozen=True)
class Finding:
    """One way of calling an operation, held against the reference.

    `way` is `again`, `order` (another order), `prefill` (against the last rows of a whole prefill)
    or the number of items in a call. `largest` is the largest |difference| of two numbers.
    """

    model: str
    dtype: str
    operation: str
    kernel: str
    unit: str
    way: str
    items: int
    equal: int
    largest: float


@dataclass(frozen=True)
class Absent:
    """A kernel that did not run here, and why."""

    model: str
    dtype: str
    operation: str
    kernel: str
    reason: str


@dataclass(frozen=True)
class Compared:
    """Items of which all numbers have the same bits, and how far the others are apart."""

    items: int
    equal: int
    largest: float


def ways(operation: Operation) -> Iterator[tuple[str, Compared]]:
    """Call an operation in every way and compare; each with its name."""
    every = range(operation.items)
    reference = operation.compute(every)
    yield "again", compared(reference, every, operation.compute(every))
    turned = other_order(operation.items)
    yield "order", compared(reference, turned, operation.compute(turned))
    for size in sizes(operation.items):
        parts = [
            compared(reference, part, operation.compute(part))
            for part in spread(operation.items, size)
        ]
        yield (
            str(size),
            Compared(
                sum(part.items for part in parts),
                sum(part.equal for part in parts),
                max(part.largest for part in parts),
            ),
        )


def compared(reference: Output, numbers: Sequence[int], output: Output) -> Compared:
    """Compare what items got with what the items of these numbers got in the reference."""
    if isinstance(reference, torch.Tensor) and isinstance(output, torch.Tensor):
        taken = reference[torch.tensor(numbers, device=reference.device)]
        apart = (taken.double() - output.double()).abs().flatten(1).amax(dim=1)
        same = (taken == output).flatten(1).all(dim=1)
        return Compared(len(numbers), int(same.sum()), float(apart.max()))
    pairs = [(reference[number], part) for number, part in zip(numbers, output, strict=True)]
    return Compared(
        len(pairs),
        sum(torch.equal(one, other) for one, other in pairs),
        max(float((one.double() - other.double()).abs().max()) for one, other in pairs),
    )


def sizes(items: int) -> list[int]:
    """Return the powers of two below a number of items."""
    return [1 << power for power in range((items - 1).bit_length())]


def spread(items: int, size: int) -> list[range]:
    """Cut items into calls of one size, and keep a few of them from first to last."""
    starts = range(0, items - size + 1, size)
    if len(starts) > CALLS:
        step = (len(starts) - 1) / (CALLS - 1)
        starts_kept = [starts[round(step * call)] for call in range(CALLS)]
    else:
        starts_kept = list(starts)
    return [range(start, start + size) for start in starts_kept]


def other_order(items: int) -> list[int]:
    """Return all items in another order, always the same."""
    return torch.randperm(items, generator=torch.Generator().manual_seed(1)).tolist()

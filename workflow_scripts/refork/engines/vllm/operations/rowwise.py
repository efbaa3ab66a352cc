"""Operations in which every token is a row: products, norms, angles, activations, softmax."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own pages name it

from refork.engines.vllm.operations.comparing import Operation
from refork.engines.vllm.operations.models import ModelShape
from refork.engines.vllm.operations.target import Target
from refork.engines.vllm.operations.vllm_parts import (
    BATCH_INVARIANT,
    AbsentError,
    own_kernel,
    vllm_kernel,
)

EPSILON = 1e-5
MOST_WIDE_ROWS = 1024
"""Rows at most of what is as wide as the vocabulary."""

Rows = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
"""Gives each row its result; told the numbers of the rows."""
Maker = Callable[[], Rows]
"""Finds a kernel; raises `AbsentError` where there is none."""


def rowwise_operations(
    shape: ModelShape, target: Target, rows: int
) -> Iterator[tuple[str, str, Callable[[], Operation]]]:
    """Yield name, kernel and maker of every operation on rows of a model."""
    for number, (name, (wide_in, wide_out)) in enumerate(shape.linears.items()):
        count = min(rows, MOST_WIDE_ROWS) if wide_out == shape.vocabulary else rows
        for kernel, find_linear in _LINEARS.items():
            # A large weight is drawn when its operation is made, and dropped behind it.
            linear = _linear(target, number, wide_in, wide_out, find_linear)
            yield _one(f"linear {name}", kernel, target, (count, wide_in), linear)
    norm_weight, angles = target.draw(shape.hidden, seed=10), _angles(shape, target, rows)
    query = shape.heads * shape.head_size
    wide = min(rows, MOST_WIDE_ROWS)
    for kernel, norm in _NORMS.items():
        yield _one("rms norm", kernel, target, (rows, shape.hidden), partial(norm, norm_weight))
    for kernel, turn in _ROTARIES.items():
        turned = partial(turn, angles, shape.head_size)
        yield _one("rotary", kernel, target, (rows, query), turned)
    for kernel, find in _ACTIVATIONS.items():
        yield _one("silu and mul", kernel, target, (rows, 2 * shape.intermediate), find)
    for kernel, find in _SOFTMAXES.items():
        yield _one("log softmax", kernel, target, (wide, shape.vocabulary), find)


def _one(
    name: str, kernel: str, target: Target, size: tuple[int, int], find: Maker
) -> tuple[str, str, Callable[[], Operation]]:
    def make() -> Operation:
        run, values = find(), target.draw(*size, seed=0)

        def compute(numbers: Sequence[int]) -> torch.Tensor:
            # Some kernels write over what they are given: always a copy.
            return run(values[torch.tensor(numbers, device=values.device)], numbers)

        return Operation(name, kernel, "rows", size[0], compute)

    return name, kernel, make


def _linear(
    target: Target, number: int, wide_in: int, wide_out: int, find: Callable[[torch.Tensor], Rows]
) -> Maker:
    return lambda: find(
        target.draw(wide_out, wide_in, seed=100 + number, scale=float(wide_in) ** -0.5)
    )


def _torch_linear(weight: torch.Tensor) -> Rows:
    return lambda values, _: F.linear(values, weight)


def _invariant_linear(weight: torch.Tensor) -> Rows:
    _gpu_only(weight)
    product = vllm_kernel("matmul_persistent", *BATCH_INVARIANT)
    return lambda values, _: product(values, weight.t())


def _torch_norm(weight: torch.Tensor) -> Rows:
    def run(values: torch.Tensor, _: Sequence[int]) -> torch.Tensor:
        wide = values.float()
        wide = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + EPSILON)
        return wide.to(values.dtype) * weight

    return run


def _own_norm(weight: torch.Tensor) -> Rows:
    norm = own_kernel("rms_norm")

    def run(values: torch.Tensor, _: Sequence[int]) -> torch.Tensor:
        out = torch.empty_like(values)
        norm(out, values, weight, EPSILON)
        return out

    return run


def _added_norm(weight: torch.Tensor) -> Rows:
    norm = own_kernel("fused_add_rms_norm")

    def run(values: torch.Tensor, _: Sequence[int]) -> torch.Tensor:
        residual = values.flip(-1).contiguous()
        norm(values, residual, weight, EPSILON)
        return torch.cat([values, residual], dim=-1)

    return run


def _invariant_norm(weight: torch.Tensor) -> Rows:
    _gpu_only(weight)
    norm = vllm_kernel("rms_norm_batch_invariant", *BATCH_INVARIANT)
    return lambda values, _: norm(values, weight, EPSILON)


def _angles(shape: ModelShape, target: Target, positions: int) -> torch.Tensor:
    """Return cosines and sines of every position side by side, as vLLM keeps them."""
    size = shape.head_size
    steps = torch.arange(0, size, 2, dtype=torch.float32, device=target.device) / size
    turns = torch.outer(
        torch.arange(positions, dtype=torch.float32, device=target.device),
        shape.rope_theta**-steps,
    )
    return torch.cat([turns.cos(), turns.sin()], dim=-1).to(target.dtype)


def _torch_rotary(angles: torch.Tensor, size: int) -> Rows:
    def run(values: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        cos, sin = angles[torch.tensor(numbers, device=angles.device), None].chunk(2, dim=-1)
        one, other = values.view(len(values), -1, size).chunk(2, dim=-1)
        return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)

    return run


def _own_rotary(angles: torch.Tensor, size: int) -> Rows:
    turn = own_kernel("rotary_embedding")

    def run(values: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
        keys = values.clone()
        turn(torch.tensor(numbers, device=angles.device), values, keys, size, angles, True)
        return values

    return run


def _torch_activation() -> Rows:
    def run(values: torch.Tensor, _: Sequence[int]) -> torch.Tensor:
        gate, up = values.chunk(2, dim=-1)
        return F.silu(gate) * up

    return run


def _own_activation() -> Rows:
    activate = own_kernel("silu_and_mul")

    def run(values: torch.Tensor, _: Sequence[int]) -> torch.Tensor:
        out = values.new_empty(len(values), values.shape[-1] // 2)
        activate(out, values)
        return out

    return run


def _torch_softmax() -> Rows:
    return lambda values, _: values.log_softmax(dim=-1, dtype=torch.float32)


def _invariant_softmax() -> Rows:
    softmax = vllm_kernel("log_softmax", *BATCH_INVARIANT)

    def run(values: torch.Tensor, _: Sequence[int]) -> torch.Tensor:
        _gpu_only(values)
        result: torch.Tensor = softmax(values.float(), -1)
        return result

    return run


def _gpu_only(values: torch.Tensor) -> None:
    if values.device.type != "cuda":
        raise AbsentError("a Triton kernel: needs a GPU")


_LINEARS = {"torch": _torch_linear, "vllm batch-invariant": _invariant_linear}
_NORMS = {
    "torch": _torch_norm,
    "vllm": _own_norm,
    "vllm, sum before": _added_norm,
    "vllm batch-invariant": _invariant_norm,
}
_ROTARIES = {"torch": _torch_rotary, "vllm": _own_rotary}
_ACTIVATIONS: dict[str, Maker] = {"torch": _torch_activation, "vllm": _own_activation}
_SOFTMAXES: dict[str, Maker] = {"torch": _torch_softmax, "vllm batch-invariant": _invariant_softmax}

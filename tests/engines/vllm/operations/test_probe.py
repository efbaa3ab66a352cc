"""Every operation is probed by every kernel that is here; what is not says why."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from refork.engines.vllm.operations import rowwise
from refork.engines.vllm.operations.attention import (
    KERNELS,
    PHASES,
    TAIL,
    flex_attention_by,
    torch_attention,
)
from refork.engines.vllm.operations.comparing import Absent, Finding
from refork.engines.vllm.operations.cpu_attention import cpu_attention
from refork.engines.vllm.operations.models import ModelShape
from refork.engines.vllm.operations.probe import Extent, probe_operations
from refork.engines.vllm.operations.sequences import Attend, Sequences, filled_pages
from refork.engines.vllm.operations.target import Target
from refork.engines.vllm.operations.vllm_parts import AbsentError, vllm_kernel, vllm_part

TINY = ModelShape("tiny", 64, 4, 2, 32, 96, 300, 1e4)
EXTENT = Extent(rows=12, sequences=5)
SEQUENCES = Sequences(TINY, Target("cpu", torch.float32), 5, page=32)
EVERY = range(SEQUENCES.count)
VLLM = pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not in this environment")
OF_VLLM = (pytest.mark.vllm, VLLM)
pytestmark = pytest.mark.filterwarnings("ignore:::vllm", "ignore:::torch")


def probed(**choices: Any) -> list[Finding | Absent]:
    return list(probe_operations(TINY, "cpu", torch.float32, EXTENT, **choices))


def test_torch_runs_all_of_it() -> None:
    found = [row for row in probed() if isinstance(row, Finding) and row.kernel == "torch"]
    assert {row.operation for row in found} == {
        *(f"linear {name}" for name in TINY.linears),
        *("rms norm", "rotary", "silu and mul", "log softmax"),
        *PHASES,
    }
    assert {row.way for row in found} == {"again", "order", "prefill", "1", "2", "4", "8"}
    assert all(0 <= row.equal <= row.items for row in found)
    assert all(row.equal == row.items for row in found if row.way == "again")
    # Nothing but float32's last bits may move.
    assert max(row.largest for row in found) < 1e-4


def test_what_is_not_here_says_why() -> None:
    absent = {
        (row.operation, row.kernel): row.reason for row in probed() if isinstance(row, Absent)
    }
    assert absent["attention decode", "vllm triton"] == "a Triton kernel: needs a GPU"
    assert absent["attention prefill", "vllm flash 3"] == "a kernel for GPUs"
    assert absent["linear qkv", "vllm batch-invariant"] == "a Triton kernel: needs a GPU"
    if find_spec("vllm") is None:
        assert "No module named 'vllm'" in absent["rms norm", "vllm"]
    assert {kernel for _, kernel in absent} <= {*KERNELS, "vllm batch-invariant"} | {
        *("vllm", "vllm, sum before")
    }


def test_a_kernel_that_refuses_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(weight: torch.Tensor) -> rowwise.Rows:
        def run(*_: object) -> torch.Tensor:
            raise RuntimeError("no such size\nfurther lines")

        return run

    monkeypatch.setitem(rowwise._NORMS, "broken", broken)
    rows = probed(chosen=["rms", "rotary"])
    assert Absent("tiny", "float32", "rms norm", "broken", "RuntimeError: no such size") in rows
    assert [row for row in rows if isinstance(row, Finding) and row.operation == "rotary"]
    assert {row.operation for row in rows} == {"rms norm", "rotary"}


def test_a_fault_of_ours_is_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in (TypeError, AttributeError, AssertionError, ValueError, KeyError):

        def faulty(_: torch.Tensor, fault: type[Exception] = fault) -> rowwise.Rows:
            raise fault("of our own")

        monkeypatch.setitem(rowwise._NORMS, "faulty", faulty)
        with pytest.raises(fault, match="of our own"):
            probed(chosen=["rms"])


def test_a_kernel_that_takes_or_wants_something_else_is_absent_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def kernel(rows: int, *, scale: float) -> float:
        assert rows < 5, "at most four rows"
        if scale < 0:
            raise ValueError("a scale below 0")
        return rows * scale

    monkeypatch.setattr("os.kernel", kernel, raising=False)
    run = vllm_kernel("kernel", "vllm.no_such_module", "os")
    assert run(4, scale=2.0) == 8
    with pytest.raises(AbsentError, match=r"this vLLM's kernel takes other arguments .*'width'"):
        run(4, scale=2.0, width=3)
    with pytest.raises(AbsentError, match=r"takes other arguments .*missing a required .*'scale'"):
        run(4)
    with pytest.raises(AbsentError, match="AssertionError: at most four rows"):
        run(5, scale=2.0)
    with pytest.raises(AbsentError, match="ValueError: a scale below 0"):
        run(4, scale=-1.0)


@pytest.mark.parametrize(
    "make",
    [
        torch_attention,
        pytest.param(
            lambda it: flex_attention_by(it, torch.nn.attention.flex_attention.flex_attention),
            id="flex",
            marks=pytest.mark.filterwarnings("ignore:flex_attention called without"),
        ),
        pytest.param(cpu_attention, marks=OF_VLLM),
    ],
)
@pytest.mark.parametrize("last", PHASES.values())
def test_attention_is_attention(make: Callable[[Sequences], Attend], last: int | None) -> None:
    numbers = [3, 0, 4]
    for number, out in zip(numbers, make(SEQUENCES)(numbers, last), strict=True):
        expected = by_hand(number)
        expected = expected if last is None else expected[-last:]
        torch.testing.assert_close(out, expected, atol=2e-5, rtol=2e-5)


def by_hand(number: int) -> torch.Tensor:
    """Attend causally, head by head and token by token."""
    query, key, value = (
        part[number] for part in (SEQUENCES.queries, SEQUENCES.keys, SEQUENCES.values)
    )
    rows = []
    for place in range(len(query)):
        heads = []
        for head in range(TINY.heads):
            group = head * TINY.kv_heads // TINY.heads
            scores = key[: place + 1, group] @ query[place, head] / TINY.head_size**0.5
            heads.append(scores.softmax(dim=0) @ value[: place + 1, group])
        rows.append(torch.stack(heads))
    return torch.stack(rows)


def test_pages_hold_every_token_in_its_slot() -> None:
    keys, values = filled_pages(SEQUENCES)
    for number, length in enumerate(SEQUENCES.lengths):
        pages = SEQUENCES.tables[number].long()
        for filled, parts in ((keys, SEQUENCES.keys), (values, SEQUENCES.values)):
            assert torch.equal(filled[pages].flatten(0, 1)[:length], parts[number])
    assert len(set(SEQUENCES.slots.tolist())) == sum(SEQUENCES.lengths)
    assert min(SEQUENCES.lengths) > TAIL


@pytest.mark.vllm
@VLLM
def test_kernels_of_vllm_agree_with_torch() -> None:
    values = Target("cpu", torch.float32).draw(6, TINY.hidden, seed=1)
    weight = Target("cpu", torch.float32).draw(TINY.hidden, seed=2)
    angles = rowwise._angles(TINY, Target("cpu", torch.float32), 6)
    wide = Target("cpu", torch.float32).draw(6, TINY.heads * TINY.head_size, seed=3)
    for one, other, given in (
        (rowwise._torch_norm(weight), rowwise._own_norm(weight), values),
        (rowwise._torch_activation(), rowwise._own_activation(), values),
        (rowwise._torch_rotary(angles, 32), rowwise._own_rotary(angles, 32), wide),
    ):
        expected = one(given.clone(), range(6))
        torch.testing.assert_close(other(given.clone(), range(6)).view_as(expected), expected)


def test_a_part_that_vllm_lacks_is_absent() -> None:
    with pytest.raises(AbsentError):
        vllm_part("no_such_name", "vllm.no_such_module", "os")

"""Compiled kernels against plain ones and against their definitions."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refork.engines.torch.llama.compiled import numbers
from refork.engines.torch.llama.cpu import CompiledAttention, CompiledElementwise, array
from refork.engines.torch.llama.forward import Elementwise, Places
from refork.engines.torch.llama.memory import Prefix, Row
from refork.engines.torch.llama.plain import BlockAttention, PlainElementwise
from refork.engines.torch.llama.stock import OwnAttention, SharedAttention

BOTH: tuple[Elementwise, ...] = (CompiledElementwise(1e-5), PlainElementwise(1e-5))
each_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])


def numbered(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def close(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether numbers differ by no more than a rounding or two."""
    bound = 2.0**-7 if left.dtype == torch.bfloat16 else 2e-6
    return torch.allclose(left.float(), right.float(), rtol=bound, atol=bound)


def test_the_exponential_is_right_to_two_units_in_the_last_place() -> None:
    values = -np.logspace(-8, math.log10(87), 20000, dtype=np.float32)
    exact = np.exp(values.astype(np.float64))
    found = np.array([numbers.exp(value) for value in values])
    assert np.abs(found / exact - 1).max() < 2 * 2.0**-23
    assert numbers.exp(np.float32(-88)) == 0
    assert numbers.exp(np.float32(0)) == 1
    assert math.isnan(numbers.exp(np.float32(math.nan)))


@each_dtype
@pytest.mark.parametrize("adding", [True, False])
def test_norms(dtype: torch.dtype, adding: bool) -> None:
    streams = [numbered((5, 48), dtype) for _ in BOTH]
    update = numbered((5, 48), dtype, 1) if adding else None
    weight = numbered((48,), dtype, 2)
    normed = [
        kernels.add_norm(stream, update, weight)
        for kernels, stream in zip(BOTH, streams, strict=True)
    ]
    # A sum of two numbers is rounded once, so it is the same bit for bit.
    assert torch.equal(*streams)
    assert close(*normed)


@each_dtype
def test_gates(dtype: torch.dtype) -> None:
    projected = 4 * numbered((5, 2 * 37), dtype)
    assert close(*(kernels.gate(projected) for kernels in BOTH))


class Written:
    """A memory to be written to."""

    def __init__(self, dtype: torch.dtype, places: Places) -> None:
        self.memory = torch.zeros((2, 2, 3, 2, 9, 12), dtype=dtype)
        self.places = places

    def attend(self, layer: int, query: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@each_dtype
@pytest.mark.parametrize("normed", [True, False])
def test_places(dtype: torch.dtype, normed: bool) -> None:
    projected = numbered((3, (4 + 2 * 2) * 12), dtype)
    angles = numbered((20, 6), torch.float32)
    norms = (numbered((12,), dtype, 1), numbered((12,), dtype, 2))
    if not normed:
        norms = (norms[0][:0], norms[1][:0])
    positions, rows, columns = torch.tensor([[7, 19, 0], [2, 0, 1], [8, 3, 0]])
    places = Places(positions, rows, columns, furthest=19)
    queries, memories = [], []
    for kernels in BOTH:
        written = Written(dtype, places)
        table = (angles.cos(), angles.sin())
        queries.append(kernels.place(projected, norms, table, written, 1))
        memories.append(written.memory)
    assert close(*queries)
    assert close(*memories)
    values = projected.view(3, 8, 12)[:, 6:]
    for memory in memories:
        assert not memory[0].any()
        assert int((memory[1, 0].abs().sum(dim=(1, 3)) > 0).sum()) == 3
        assert torch.equal(memory[1, 1][places.rows, :, places.columns], values)


def definition(query: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Attend in float64 with one token [heads, width] to a state [2, key heads, tokens, width]."""
    repeated = state.double().repeat_interleave(len(query) // state.shape[1], dim=1)
    scores = (repeated[0] @ query.double()[:, :, None])[..., 0] / math.sqrt(query.shape[1])
    return (torch.softmax(scores, dim=-1)[:, None] @ repeated[1])[:, 0].flatten()


SHAPES = st.fixed_dictionaries(
    {
        "key_heads": st.integers(1, 3),
        "members": st.integers(1, 5),
        "width": st.sampled_from([2, 12, 16, 20, 64, 80]),
        "prefixes": st.lists(st.sampled_from([1, 16, 63, 64, 100]), min_size=1, max_size=3),
        "rows": st.lists(
            st.tuples(st.integers(0, 3), st.floats(0, 1), st.sampled_from([0, 1, 15, 16, 70])),
            min_size=1,
            max_size=6,
        ),
    }
)


def make_rows(drawn: dict[str, Any], dtype: torch.dtype) -> tuple[torch.Tensor, list[Row]]:
    """Make a memory of one layer with lively numbers, and rows of some prefixes or of none."""
    key_heads, width = drawn["key_heads"], drawn["width"]
    held = []
    for seed, tokens in enumerate(drawn["prefixes"]):
        state = numbered((1, 2, key_heads, tokens, width), dtype, seed)
        held.append(Prefix(state, state))
    rows = []
    for number, share, own in drawn["rows"]:
        prefix = held[number] if number < len(held) else None
        shared = 0 if prefix is None else round(share * prefix.state.shape[3])
        rows.append(Row(prefix, shared, own))
    return numbered((1, 2, len(rows), key_heads, 128, width), dtype, 9), rows


def states(memory: torch.Tensor, rows: list[Row]) -> list[torch.Tensor]:
    """What each row sees: its prefix, its own part, and the token that it is fed."""
    seen = []
    for number, row in enumerate(rows):
        own = memory[0, :, number, :, : row.own + 1]
        prefix = own[:, :, :0] if row.prefix is None else row.prefix.state[0, :, :, : row.shared]
        seen.append(torch.cat([prefix, own], dim=2))
    return seen


def step_places(rows: list[Row]) -> Places:
    lengths = [row.length for row in rows]
    own = [row.own for row in rows]
    return Places(torch.tensor(lengths), torch.arange(len(rows)), torch.tensor(own), max(lengths))


@each_dtype
@settings(max_examples=25, deadline=None)
@given(drawn=SHAPES)
def test_attention_over_shared_prefixes(dtype: torch.dtype, drawn: dict[str, Any]) -> None:
    memory, rows = make_rows(drawn, dtype)
    members = drawn["members"]
    query = numbered((len(rows), drawn["key_heads"] * members, drawn["width"]), dtype, 5)
    wanted = [definition(*pair) for pair in zip(query, states(memory, rows), strict=True)]
    bound = 0.03 if dtype == torch.bfloat16 else 1e-5
    for attention in (
        CompiledAttention(memory, step_places(rows), rows),
        SharedAttention(memory, step_places(rows), rows, members),
    ):
        found = attention.attend(0, query)
        assert found.dtype == dtype
        assert (found.double() - torch.stack(wanted)).abs().max() < bound


@each_dtype
@settings(max_examples=25, deadline=None)
@given(drawn=SHAPES)
def test_attention_over_rows_of_their_own(dtype: torch.dtype, drawn: dict[str, Any]) -> None:
    memory, _ = make_rows(drawn, dtype)
    rows = [Row(own=own) for _, _, own in drawn["rows"]]
    heads = drawn["key_heads"] * drawn["members"]
    query = numbered((len(rows), heads, drawn["width"]), dtype, 5)
    wanted = [definition(*pair) for pair in zip(query, states(memory, rows), strict=True)]
    places = step_places(rows)
    bound = 0.03 if dtype == torch.bfloat16 else 1e-5
    for attention in (
        OwnAttention(memory, places, rows),
        BlockAttention(memory, places, places.columns + 1),
    ):
        found = attention.attend(0, query)
        assert (found.double() - torch.stack(wanted)).abs().max() < bound


@each_dtype
@settings(max_examples=25, deadline=None)
@given(drawn=SHAPES, cut=st.floats(0, 1))
def test_compiled_attention_does_not_see_where_a_prefix_ends(
    dtype: torch.dtype, drawn: dict[str, Any], cut: float
) -> None:
    memory, rows = make_rows(drawn, dtype)
    heads = drawn["key_heads"] * drawn["members"]
    query = numbered((len(rows), heads, drawn["width"]), dtype, 5)
    beside = CompiledAttention(memory, step_places(rows), rows).attend(0, query)
    for number, state in enumerate(states(memory, rows)):
        # The same tokens, alone, cut at another place.
        tokens = state.shape[2]
        shared = round(cut * (tokens - 1))
        prefix = state[None, :, :, :shared].clone()
        own = torch.zeros((1, 2, 1, drawn["key_heads"], 256, drawn["width"]), dtype=dtype)
        own[0, :, 0, :, : tokens - shared] = state[:, :, shared:]
        row = Row(Prefix(prefix, prefix), shared, tokens - shared - 1)
        alone = CompiledAttention(own, step_places([row]), [row])
        assert torch.equal(alone.attend(0, query[number : number + 1])[0], beside[number])


def test_arrays_are_the_memory_of_tensors() -> None:
    tensor = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
    assert array(tensor).tolist() == [0x3F80, 0xC020]
    array(tensor)[0] = 0x4000
    assert tensor[0] == 2

"""Rows of the fast path: who holds which memory, and for how long."""

import gc
import weakref

import pytest
import torch

from helpers.tiny_llama import make_decoder, make_tokens
from refork.engines.torch.llama.compiled.attention import attend
from refork.engines.torch.llama.compiled.elementwise import place
from refork.engines.torch.llama.memory import RESERVE
from refork.engines.torch.llama.rows import LlamaRows

TOKENS = make_tokens(200)
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
each_mode = pytest.mark.parametrize("kernels", ["stock", "batch_invariant"])


def columns(rows: LlamaRows) -> int:
    return rows._memory.tensor.shape[4]


@each_mode
def test_rows_share_a_prefix_by_reference(kernels: str) -> None:
    decoder = make_decoder("llama", torch.float32, kernels)
    state = decoder.prefill(TOKENS, len(TOKENS)).state
    rows = decoder.rows(8)
    for tokens in (200, 200, 150, 1):
        rows.enter(state, tokens)
    rows.step([5] * 4)
    prefixes = {id(row.prefix) for row in rows._rows}
    assert len(prefixes) == 1
    held = rows._rows[0].prefix
    assert held is not None
    assert held.state.data_ptr() == state.data_ptr()
    # The rows' own memory holds what they were fed, not what they share.
    assert columns(rows) == RESERVE
    assert [row.own for row in rows._rows] == [1] * 4


def test_equal_states_in_other_memory_are_not_one_prefix() -> None:
    decoder = make_decoder("llama", torch.float32, "stock")
    state = decoder.prefill(TOKENS, len(TOKENS)).state
    rows = decoder.rows(3)
    for given in (state, state.clone(), state[:, :, :, :100]):
        rows.enter(given, 100)
    assert len({id(row.prefix) for row in rows._rows}) == 3
    logits = rows.step([5] * 3)
    assert torch.allclose(logits[0], logits[1], atol=1e-4)
    assert torch.allclose(logits[0], logits[2], atol=1e-4)


@both_kernels
def test_a_prefix_lives_no_longer_than_its_rows(compiled: bool) -> None:
    decoder = make_decoder("llama", torch.float32, "batch_invariant", compiled)
    rows = decoder.rows(2)
    state = decoder.feed(TOKENS[:50], 50).state
    known = weakref.ref(state)
    rows.enter(decoder.feed(TOKENS[:20], 20).state, 20)
    rows.enter(state, 50)
    del state
    rows.step([5, 5])
    rows.drop(1)
    gc.collect()
    assert known() is None


@both_kernels
@each_mode
def test_rows_keep_their_states_when_others_leave_and_the_memory_grows(
    kernels: str, compiled: bool
) -> None:
    decoder = make_decoder("llama", torch.float32, kernels, compiled)
    rows, numbers, starts = decoder.rows(5), [0, 1, 2, 3, 4], [3, 20, 7, 11, 1]
    states = []
    for number, tokens in enumerate(starts):
        given = decoder.prefill(TOKENS[number : number + 20], 20).state
        rows.enter(given, tokens)
        states.append(given[:, :, :, :tokens].clone())
    for count in range(RESERVE + 20):
        rows.step([TOKENS[number + starts[number] + count % 100] for number in numbers])
        if count in (2, 40, RESERVE + 5):
            gone = min(1, len(numbers) - 1)
            rows.drop(gone)
            numbers[gone] = numbers[-1]
            numbers.pop()
        for row, number in enumerate(numbers):
            state = rows.state(row)
            before = states[number].shape[3]
            assert state.shape[3] == before + 1
            assert torch.equal(state[:, :, :, :before], states[number])
            states[number] = state
    assert len(numbers) == 2


def test_the_memory_shrinks_when_long_rows_have_left() -> None:
    decoder = make_decoder("llama", torch.float32, "stock")
    state = decoder.prefill(TOKENS[:20], 20).state
    rows = decoder.rows(2)
    rows.enter(state, 1)
    for count in range(2 * RESERVE + 1):
        rows.step([TOKENS[count % 100]])
    assert columns(rows) == 3 * RESERVE
    rows.enter(state, 3)
    rows.drop(0)
    rows.step([5])
    assert columns(rows) == RESERVE


def test_nothing_is_compiled_anew_when_rows_leave() -> None:
    decoder = make_decoder("llama", torch.float32, "batch_invariant")
    state = decoder.feed(TOKENS[:20], 20).state
    rows = decoder.rows(40)
    for _ in range(33):
        rows.enter(state, 20)
    rows.step([5] * 33)
    compiled = len(attend.signatures), len(place.signatures)  # type: ignore[attr-defined]
    rows.drop(0)
    rows.step([5] * 32)
    assert compiled == (len(attend.signatures), len(place.signatures))  # type: ignore[attr-defined]


def test_a_state_is_a_copy() -> None:
    decoder = make_decoder("llama", torch.float32, "batch_invariant")
    given = decoder.feed(TOKENS[:20], 20).state
    rows = decoder.rows(1)
    rows.enter(given, 20)
    rows.step([5])
    rows.state(0).zero_()
    assert rows.state(0).abs().min() > 0
    assert given.abs().min() > 0


@both_kernels
def test_a_row_can_start_from_nothing_but_its_first_token(compiled: bool) -> None:
    decoder = make_decoder("llama", torch.float32, "batch_invariant", compiled)
    rows = decoder.rows(1)
    rows.enter(decoder.feed(TOKENS[:1], 1).state, 0)
    assert torch.equal(rows.step(TOKENS[:1])[0], decoder.feed(TOKENS[:1], 1).logits)


def test_what_does_not_fit_is_refused() -> None:
    decoder = make_decoder("llama", torch.float32, "stock")
    state = decoder.prefill(TOKENS[:20], 20).state
    rows = decoder.rows(1)
    with pytest.raises(ValueError, match="a state of 20 tokens has no 21"):
        rows.enter(state, 21)
    rows.enter(state, 20)
    with pytest.raises(ValueError, match="there are 1 rows already"):
        rows.enter(state, 20)

"""Batch-invariant kernels: a row's numbers are those of its tokens, bit for bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.tiny_llama import make_decoder, make_tokens
from refork.engines.torch.llama.decoder import LlamaDecoder

SEQUENCES = [make_tokens(140, seed) for seed in range(3)]
PREFIX = 130
"""A block of keys and two tokens, more than two tiles."""
STEPS = 8
WAYS = [("smollm2", "bfloat16"), ("qwen3", "float32")]
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
each_way = pytest.mark.parametrize(("name", "dtype"), WAYS)


@cache
def decoder(name: str, dtype: str, compiled: bool) -> LlamaDecoder:
    return make_decoder(name, getattr(torch, dtype), "batch_invariant", compiled)


@cache
def prefixes(name: str, dtype: str, compiled: bool) -> list[torch.Tensor]:
    own = decoder(name, dtype, compiled)
    return [own.feed(tokens[:PREFIX], PREFIX).state for tokens in SEQUENCES]


@dataclass(frozen=True)
class Start:
    """A row: so many tokens of a sequence, by reference to a state that others may share."""

    sequence: int
    tokens: int
    shared: bool


@cache
def alone(
    name: str, dtype: str, compiled: bool, sequence: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [tokens, vocabulary] and state of a row that is fed token by token, with no other."""
    own, tokens = decoder(name, dtype, compiled), SEQUENCES[sequence]
    first = own.feed(tokens[:1], 1)
    rows, logits = own.rows(1), [first.logits]
    rows.enter(first.state, 1)
    logits += [rows.step([token])[0] for token in tokens[1:]]
    return torch.stack(logits), rows.state(0)


def together(
    own: LlamaDecoder, whole: list[torch.Tensor], starts: Sequence[Start]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Logits and states of rows that are decoded side by side, from states that `feed` wrote."""
    rows = own.rows(len(starts))
    logits: list[list[torch.Tensor]] = [[] for _ in starts]
    for start in starts:
        state = whole[start.sequence]
        rows.enter(state if start.shared else state[:, :, :, : start.tokens].clone(), start.tokens)
    for step in range(STEPS):
        fed = [SEQUENCES[start.sequence][start.tokens + step] for start in starts]
        for row, stepped in enumerate(rows.step(fed)):
            logits[row].append(stepped)
    return [(torch.stack(parts), rows.state(row)) for row, parts in enumerate(logits)]


@both_kernels
@each_way
@settings(max_examples=5, deadline=None)
@given(
    starts=st.lists(
        st.builds(
            Start, st.integers(0, 2), st.sampled_from([1, 15, 64, 70, 127, 130]), st.booleans()
        ),
        min_size=1,
        max_size=70,
    )
)
def test_a_row_does_not_see_the_others(
    name: str, dtype: str, compiled: bool, starts: list[Start]
) -> None:
    whole = prefixes(name, dtype, compiled)
    rows = together(decoder(name, dtype, compiled), whole, starts)
    for start, (logits, state) in zip(starts, rows, strict=True):
        wanted, written = alone(name, dtype, compiled, start.sequence)
        end = start.tokens + STEPS
        assert torch.equal(logits, wanted[start.tokens : end])
        assert torch.equal(state, written[:, :, :, :end])


@both_kernels
@each_way
@pytest.mark.parametrize("count", [2, 63, 64, 65, 128, 131, 140])
def test_a_fed_sequence_is_one_fed_token_by_token(
    name: str, dtype: str, compiled: bool, count: int
) -> None:
    own, tokens = decoder(name, dtype, compiled), SEQUENCES[0][:count]
    logits, state = alone(name, dtype, compiled, 0)
    fed = own.feed(tokens, 1)
    assert torch.equal(fed.logits, logits[count - 1])
    assert torch.equal(fed.state, state[:, :, :, :count])
    # From any prompt on, and the prompt is fed alike.
    for prompt in (1, count // 2, count):
        again = own.feed(tokens, prompt)
        assert torch.equal(again.logits, fed.logits)
        assert again.logprobs == fed.logprobs[len(fed.logprobs) - len(again.logprobs) :]


@both_kernels
def test_rows_that_come_and_go_change_nothing(compiled: bool) -> None:
    own = decoder("smollm2", "bfloat16", compiled)
    starts = [Start(number % 3, 10 + number, False) for number in range(20)]
    states = prefixes("smollm2", "bfloat16", compiled)
    rows = own.rows(8)
    live: list[int] = []
    waiting, fed = list(range(len(starts))), [0] * len(starts)
    logits: list[list[torch.Tensor]] = [[] for _ in starts]
    while waiting or live:
        while waiting and len(live) < 8:
            number = waiting.pop(0)
            rows.enter(states[starts[number].sequence], starts[number].tokens)
            live.append(number)
        tokens = [SEQUENCES[starts[n].sequence][starts[n].tokens + fed[n]] for n in live]
        for number, stepped in zip(list(live), rows.step(tokens), strict=True):
            logits[number].append(stepped)
            fed[number] += 1
        for row in reversed(range(len(live))):
            # Rows of different numbers end at different steps.
            if fed[live[row]] == STEPS or (live[row] % 3 == 0 and fed[live[row]] == 5):
                rows.drop(row)
                live[row] = live[-1]
                live.pop()
    for number, start in enumerate(starts):
        wanted = alone("smollm2", "bfloat16", compiled, start.sequence)[0][start.tokens :]
        assert torch.equal(torch.stack(logits[number]), wanted[: len(logits[number])])


def test_stock_kernels_are_not_so() -> None:
    """What the tests above would find, if it were there."""
    own = make_decoder("smollm2", torch.bfloat16, "stock")
    state, other = (own.prefill(tokens[:PREFIX], PREFIX).state for tokens in SEQUENCES[:2])
    single, many = own.rows(1), own.rows(40)
    single.enter(state, 100)
    for row in range(40):
        many.enter(state if row % 2 == 0 else other, 100 + row // 2)
    differs = False
    for token in SEQUENCES[0][100:140]:
        differs |= not torch.equal(single.step([token])[0], many.step([token] * 40)[0])
    assert differs

"""Compiled draws against draws by the definition, and against those on tensors."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from helpers.draws import chosen, draws, logits, plain_draws, plain_log_probabilities
from refork.engines import seeds
from refork.engines.sampling import (
    Drawn,
    Draws,
    LogitsError,
    draw,
    kernels,
    log_probabilities,
    rows,
    tensors,
)

VOCABULARIES = st.sampled_from([1, 2, 3, 15, 16, 17, 63, 64, 65, 129, 600, 1025])
RESTRICTIONS = {
    "temperature": st.sampled_from([0.0, 0.01, 0.3, 0.7, 1.0, 2.5, 50.0]),
    "top_p": st.sampled_from([1e-6, 0.2, 0.7, 0.95, 0.9999999, 1.0]),
    "top_k": st.sampled_from([0, 1, 2, 7, 64, 300, 10**6]),
}


@st.composite
def odd_logits(draw_: st.DrawFn) -> torch.Tensor:
    """Logits with equals, with some at −∞, from nearly flat to far apart; rounded or not."""
    vocabulary = draw_(VOCABULARIES)
    generator = np.random.default_rng(draw_(st.integers(0, 2**32)))
    spread = draw_(st.sampled_from([1e-3, 0.5, 3.0, 10.0, 300.0]))
    scores = generator.normal(draw_(st.sampled_from([-50.0, 0.0, 20.0])), spread, (5, vocabulary))
    if draw_(st.booleans()):
        scores = scores.round(draw_(st.integers(-1, 1)))
    if draw_(st.booleans()):
        scores[generator.random(scores.shape) < 0.3] = -math.inf
        scores[:, generator.integers(vocabulary)] = 1.0
    return torch.tensor(scores, dtype=torch.float32)


@settings(max_examples=400, deadline=None)
@given(scores=odd_logits(), **RESTRICTIONS)
def test_draws_are_the_plain_ones(
    scores: torch.Tensor, temperature: float, top_p: float, top_k: int
) -> None:
    given_draws = draws(5, temperature, top_p, top_k)
    assert draw(scores, given_draws, 0).tokens == plain_draws(scores, given_draws)


@settings(max_examples=100, deadline=None)
@given(scores=odd_logits(), recorded=st.integers(0, 20), **RESTRICTIONS)
def test_compiled_draws_are_those_on_tensors(
    scores: torch.Tensor, recorded: int, temperature: float, top_p: float, top_k: int
) -> None:
    given_draws = draws(5, temperature, top_p, top_k)
    compiled = Drawn.of(rows.draw(scores, given_draws, recorded))
    plain = Drawn.of(tensors.draw(scores, given_draws, recorded))
    assert compiled.tokens == plain.tokens
    # At −1000 float32 rounds off more than 1e-4.
    near = partial(pytest.approx, abs=1e-4, rel=2.0**-22)
    assert compiled.logprobs == near(plain.logprobs)
    for ours, theirs in zip(compiled.top_logprobs, plain.top_logprobs, strict=True):
        assert ours == near(theirs)


@settings(max_examples=200, deadline=None)
@given(scores=odd_logits(), recorded=st.integers(0, 20))
def test_the_most_probable_tokens_come_best_first_and_equals_by_their_number(
    scores: torch.Tensor, recorded: int
) -> None:
    drawn = draw(scores, draws(5), recorded)
    ranked = np.argsort(-scores.numpy(), axis=1, kind="stable")[:, :recorded]
    assert drawn.top_tokens == ranked.tolist()
    looked_up = log_probabilities(scores, torch.tensor(ranked.reshape(5, -1)))
    assert drawn.top_logprobs == looked_up.tolist()


@settings(max_examples=200, deadline=None)
@given(scores=odd_logits())
def test_log_probabilities_are_those_of_the_softmax(scores: torch.Tensor) -> None:
    every = torch.arange(scores.shape[1]).expand(5, -1)
    ours = log_probabilities(scores, every)
    theirs = plain_log_probabilities(scores)
    assert ours.dtype == torch.float32
    finite = np.isfinite(theirs)
    assert np.array_equal(np.isfinite(ours.numpy()), finite)
    # A float32 of this size is off by half a unit in the last place at least.
    bound = 1e-6 + np.abs(theirs[finite]) * 2.0**-24
    assert (np.abs(ours.numpy()[finite] - theirs[finite]) <= bound).all()


@pytest.mark.parametrize("spread", [0.01, 3.0, 8.0])
def test_log_probabilities_of_a_large_vocabulary(spread: float) -> None:
    scores = logits(8, 49_152, spread)
    tokens = scores.argsort(dim=-1)[:, ::997].contiguous()
    theirs = np.take_along_axis(plain_log_probabilities(scores), tokens.numpy(), axis=1)
    ours = log_probabilities(scores, tokens).numpy()
    assert np.abs(ours - theirs).max() <= 1e-6 + np.abs(theirs).max() * 2.0**-24


@settings(max_examples=300, deadline=None)
@given(x=st.floats(-87, 0, width=32))
def test_the_exponential(x: float) -> None:
    assert kernels._exp(np.float32(x)) == pytest.approx(math.exp(x), rel=2.5e-7)


def test_the_exponential_ends_at_zero() -> None:
    assert kernels._exp(np.float32(-math.inf)) == kernels._exp(np.float32(-87.01)) == 0.0
    assert kernels._exp(np.float32(0)) == 1.0
    assert math.isnan(kernels._exp(np.float32(math.nan)))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31), st.integers(0, 2**18))
def test_noise_is_made_of_the_same_uniform_numbers(seed: int, position: int, token: int) -> None:
    key = np.uint64((seed + (position + 1) * seeds.GOLDEN) % 2**64)
    stream = np.uint64(kernels._mix(key))
    uniform = float(seeds.uniform(seed, position, token))
    assert (float(kernels._hash(stream, token)) + 0.5) / 2.0**32 == uniform
    assert kernels._noise(stream, token) == pytest.approx(-math.log(-math.log(uniform)), abs=1e-12)


def test_no_noise_is_above_its_bound() -> None:
    largest = -math.log(-math.log(1 - 2.0**-33))
    assert largest < kernels.GUMBEL_MAX < largest + 1e-6


def test_golden_draws() -> None:
    """Finished studies rest on these numbers: they must not change."""
    scores = torch.arange(40, dtype=torch.float32).expand(8, -1) / 20
    for given_draws, tokens in (
        (draws(8), [37, 20, 25, 17, 31, 11, 0, 14]),
        (draws(8, 0.7, 0.9), [37, 20, 25, 17, 31, 20, 33, 14]),
        (draws(8, 0.7, 1.0, 12), [37, 39, 29, 28, 31, 36, 33, 35]),
    ):
        assert draw(scores, given_draws, 0).tokens == tokens


@pytest.mark.parametrize("spread", [0.1, 2.0, 8.0])
@pytest.mark.parametrize(
    "given_draws",
    [draws(4), draws(4, 0.7, 0.95), draws(4, 2.0, 0.99), draws(4, 1.0, 1.0, 3000)],
    ids=["free", "narrow", "wide", "top-k"],
)
def test_large_vocabularies_are_searched_to_the_end(spread: float, given_draws: Draws) -> None:
    scores = logits(4, 50_001, spread)
    assert draw(scores, given_draws, 0).tokens == plain_draws(scores, given_draws)


def test_rare_tokens_are_drawn() -> None:
    """Of many equals far below one token, those with the greatest noise win at times."""
    scores = torch.full((300, 20_000), -3.0)
    scores[:, 77] = 5.0
    given_draws = draws(300)
    tokens = draw(scores, given_draws, 0).tokens
    assert tokens == plain_draws(scores, given_draws)
    assert len(set(tokens)) > 100


@pytest.mark.parametrize(("temperature", "top_k"), [(0.7, 0), (1.0, 6)])
def test_draws_follow_the_softmax(temperature: float, top_k: int) -> None:
    count = 20_000
    scores = logits(1, 30, 1.0)
    tokens = draw(scores.expand(count, -1), draws(count, temperature, top_k=top_k), 0).tokens
    weights = torch.softmax(scores[0].double() / temperature, dim=0).numpy()
    if top_k:
        weights[weights < np.sort(weights)[-top_k]] = 0
    kept = weights > 0
    found = np.bincount(tokens, minlength=30)
    assert found[~kept].sum() == 0
    expected = count * weights[kept] / weights.sum()
    assert chisquare(found[kept], expected).pvalue > 1e-3


def test_positions_draw_independently() -> None:
    count = 20_000
    scores = torch.zeros(count, 4)
    there = draws(count)
    here = Draws(there.seeds, there.positions + 1, there.temperature, there.top_p, there.top_k)
    table = np.zeros((4, 4))
    np.add.at(table, (draw(scores, here, 0).tokens, draw(scores, there, 0).tokens), 1)
    assert chisquare(table.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("vocabulary", [17, 3000, 49_152])
def test_a_row_is_the_same_bit_for_bit_alone_and_among_others(vocabulary: int) -> None:
    scores = logits(9, vocabulary)
    order = [4, 0, 8, 8, 2]
    for given_draws in (draws(9), draws(9, 0.7, 0.95), draws(9, 1.5, 1.0, 40), draws(9, 0.0)):
        together = draw(scores, given_draws, 5)
        for some in (*([row] for row in range(9)), order):
            found = draw(scores[some], chosen(given_draws, some), 5)
            assert _columns(found) == [
                [column[row] for row in some] for column in _columns(together)
            ]
        again = log_probabilities(scores, torch.tensor(together.tokens)[:, None])
        assert again[:, 0].tolist() == together.logprobs


def _columns(drawn: Any) -> list[list[Any]]:
    return [drawn.tokens, drawn.logprobs, drawn.top_tokens, drawn.top_logprobs]


def test_rows_of_different_kinds_share_a_batch() -> None:
    scores = logits(4, 500)
    mixed = Draws(
        seeds=torch.tensor([0, -1, 2**63 - 1, -(2**63)]),
        positions=torch.tensor([3, 1, 4, 1]),
        temperature=torch.tensor([0.0, 0.7, 1.0, 2.0]),
        top_p=torch.tensor([1.0, 0.9, 1.0, 1.0]),
        top_k=torch.tensor([0, 0, 0, 5]),
    )
    assert draw(scores, mixed, 0).tokens == plain_draws(scores, mixed)


def test_rows_of_a_view_are_read_as_they_stand() -> None:
    scores = logits(3, 200).T.contiguous().T
    assert draw(scores, draws(3), 3) == draw(scores.contiguous(), draws(3), 3)


def test_equals_at_the_edge_are_all_kept() -> None:
    scores = torch.log(torch.tensor([0.4, 0.2, 0.2, 0.2])).expand(4000, -1)
    assert set(draw(scores, draws(4000, top_p=0.5), 0).tokens) == {0, 1, 2, 3}
    assert set(draw(scores, draws(4000, top_k=2), 0).tokens) == {0, 1, 2, 3}
    assert set(draw(scores, draws(4000, top_p=0.3), 0).tokens) == {0}


def test_top_p_counts_among_what_top_k_left() -> None:
    scores = torch.log(torch.tensor([0.4, 0.3, 0.2, 0.1])).expand(4000, -1)
    assert set(draw(scores, draws(4000, top_p=0.65), 0).tokens) == {0, 1}
    # Of the best two, 0.4 / 0.7 = 0.57.
    assert set(draw(scores, draws(4000, top_p=0.55, top_k=2), 0).tokens) == {0}


def test_no_rows_give_no_tokens() -> None:
    drawn = draw(torch.empty(0, 30), draws(0), 5)
    assert _columns(drawn) == [[], [], [], []]


@pytest.mark.parametrize("module", [rows, tensors], ids=["rows", "tensors"])
@pytest.mark.parametrize("fault", [math.nan, -math.nan, math.inf])
def test_logits_that_are_no_numbers_are_refused(module: Any, fault: float) -> None:
    scores = logits(4, 300)
    scores[2, 123] = fault
    with pytest.raises(LogitsError, match="the model's logits are NaN or infinite") as drawing:
        module.draw(scores, draws(4), 0)
    with pytest.raises(LogitsError) as looking_up:
        module.log_probabilities(scores, torch.zeros((4, 1), dtype=torch.int64))
    assert drawing.value.row == looking_up.value.row == 2


def test_a_row_without_any_token_is_refused() -> None:
    with pytest.raises(LogitsError):
        draw(torch.full((1, 100), -math.inf), draws(1), 0)

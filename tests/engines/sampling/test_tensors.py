"""Draws on tensors against draws by the definition."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.draws import draws, logits, plain_draws
from refork.engines import seeds
from refork.engines.sampling import tensors
from refork.engines.sampling.draws import Drawn, Draws, LogitsError
from refork.engines.sampling.tensors import CANDIDATES, DRAWN_ROWS, rank

SEEDS = st.integers(0, 2**64 - 1)


def sample(scores: torch.Tensor, given_draws: Draws) -> list[int]:
    return Drawn.of(tensors.draw(scores, given_draws, 0)).tokens


@given(st.lists(SEEDS, min_size=1, max_size=5), st.integers(0, 2**20), st.integers(0, 2**18))
def test_tensors_hold_the_same_uniform_numbers(keys: list[int], position: int, token: int) -> None:
    signed = torch.tensor([key - 2**64 if key >= 2**63 else key for key in keys])
    tokens = torch.arange(token, token + 40)
    ours = tensors.uniform(signed[:, None], torch.tensor(position), tokens)
    theirs = seeds.uniform(np.array(keys, dtype=np.uint64)[:, None], position, tokens.numpy())
    assert ours.dtype == torch.float64
    assert np.array_equal(ours.numpy(), theirs)


def test_the_bound_of_the_noise_is_the_noise_of_the_last_number() -> None:
    largest = torch.tensor([1 - 2.0**-33], dtype=torch.float64)
    assert tensors.gumbel(largest).item() == pytest.approx(tensors.GUMBEL_MAX, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    vocabulary=st.integers(2, 600),
    spread=st.floats(0.01, 8),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_p=st.sampled_from([0.2, 0.7, 0.95, 1.0]),
    top_k=st.sampled_from([0, 1, 7, 300]),
)
def test_pruned_draws_are_the_plain_ones(
    vocabulary: int, spread: float, temperature: float, top_p: float, top_k: int
) -> None:
    scores = logits(6, vocabulary, spread)
    given_draws = draws(6, temperature, top_p, top_k)
    assert sample(scores, given_draws) == plain_draws(scores, given_draws)


@pytest.mark.parametrize("spread", [0.1, 2.0, 8.0])
def test_large_vocabularies_are_searched_to_the_end(spread: float) -> None:
    scores = logits(4, 50_000, spread)
    for given_draws in (draws(4), draws(4, 2.0, 0.99), draws(4, 1.0, 1.0, 3000)):
        assert sample(scores, given_draws) == plain_draws(scores, given_draws)


def test_a_row_draws_the_same_alone_and_among_others() -> None:
    scores = logits(9, 3000)
    for given_draws in (draws(9), draws(9, 0.7, 0.95), draws(9, 1.5, 1.0, 40), draws(9, 0.0)):
        together = sample(scores, given_draws)
        alone = [sample(scores[row : row + 1], given_draws.tile(row, 1))[0] for row in range(9)]
        assert alone == together


def test_rows_of_different_kinds_share_a_batch() -> None:
    scores = logits(4, 500)
    mixed = Draws(
        seeds=torch.arange(4),
        positions=torch.tensor([3, 1, 4, 1]),
        temperature=torch.tensor([0.0, 0.7, 1.0, 2.0]),
        top_p=torch.tensor([1.0, 0.9, 1.0, 1.0]),
        top_k=torch.tensor([0, 0, 0, 5]),
    )
    assert sample(scores, mixed) == plain_draws(scores, mixed)


def test_rows_beyond_a_tile_are_drawn_as_those_within() -> None:
    count = 2 * DRAWN_ROWS + 5
    scores, given_draws = logits(count, 300), draws(count, 0.7, 0.95)
    whole = Drawn.of(tensors.draw(scores, given_draws, 3))
    assert whole.tokens == plain_draws(scores, given_draws)
    last = Drawn.of(tensors.draw(scores[-1:], given_draws.tile(count - 1, 1), 3))
    assert (whole.tokens[-1], whole.logprobs[-1]) == (last.tokens[0], last.logprobs[0])
    assert whole.top_logprobs[-1] == last.top_logprobs[0]


def test_logits_that_are_no_numbers_are_found_in_their_row() -> None:
    scores = logits(DRAWN_ROWS + 3, 40)
    scores[DRAWN_ROWS + 1, 7] = math.nan
    with pytest.raises(LogitsError) as error:
        sample(scores, draws(DRAWN_ROWS + 3))
    assert error.value.row == DRAWN_ROWS + 1


def test_equals_are_ranked_by_their_number() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0, 3.0, 2.0, 3.0]])
    ranked = rank(scores, 5)
    assert ranked.tokens.tolist() == [[1, 3, 5, 2, 4]]
    assert ranked.logits.tolist() == [[3.0, 3.0, 3.0, 2.0, 2.0]]
    assert sample(scores, draws(1, temperature=0.0)) == [1]


def test_the_lowest_of_more_equals_than_candidates_is_the_cold_draw() -> None:
    scores = torch.zeros(3, 4 * CANDIDATES)
    scores[:, :5] = -1.0
    assert sample(scores, draws(3, temperature=0.0)) == [5, 5, 5]


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_every_row_without_numbers_is_refused_in_words(top_p: float) -> None:
    for number in (math.nan, math.inf):
        scores = logits(3, 4 * CANDIDATES)
        scores[1:] = number
        with pytest.raises(LogitsError) as error:
            sample(scores, draws(3, 0.7, top_p))
        assert error.value.row == 1


def test_equals_at_the_edge_of_top_p_are_all_kept() -> None:
    scores = torch.log(torch.tensor([0.4, 0.2, 0.2, 0.2])).expand(4000, -1)
    drawn = sample(scores, draws(4000, top_p=0.5))
    assert set(drawn) == {0, 1, 2, 3}
    drawn = sample(scores, draws(4000, top_p=0.3))
    assert set(drawn) == {0}


def test_log_probabilities_are_those_of_the_softmax() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.25, 0.25]])) + 7
    tokens = torch.tensor([[2, 0]])
    assert tensors.log_probabilities(scores, tokens)[0].tolist() == pytest.approx(
        [math.log(0.25), math.log(0.5)], abs=1e-6
    )


def test_no_rows_have_no_log_probabilities() -> None:
    none = tensors.log_probabilities(torch.zeros(0, 7), torch.zeros(0, 1, dtype=torch.int64))
    assert none.shape == (0, 1)


def test_only_rows_that_need_it_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search = tensors._among_all

    def counted(scores: torch.Tensor, given: Draws) -> torch.Tensor:
        searched.append(int((scores == 0).all(dim=-1).sum()))
        return search(scores, given)

    monkeypatch.setattr(tensors, "_among_all", counted)
    peaked = logits(3, 5000, 60.0)
    for given_draws in (draws(3), draws(3, 0.7, 0.95), draws(3, 0.0)):
        assert sample(peaked, given_draws) == plain_draws(peaked, given_draws)
    assert not searched
    flat = torch.zeros(2, 5000)
    assert sample(flat, draws(2)) == plain_draws(flat, draws(2))
    assert searched == [tensors.SEARCHED_ROWS]  # the two, and what fills their tile

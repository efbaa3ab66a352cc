"""Branches of every token, and what they leave out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refork.engines.synthetic.chain import sampling_probabilities
from refork.stats.curves.branches import Branches, BranchRule, Sampling, find_branches

RULE = BranchRule(min_probability=0.05, max_branches=10)
RAW = Sampling()


def find(
    steps: list[tuple[int, dict[int, float]]],
    *,
    recorded: int | None = None,
    sampling: Sampling = RAW,
    rule: BranchRule = RULE,
) -> Branches:
    """Find the branches where the rollout drew a token of these probabilities at temperature 1."""
    ranked = [sorted(shares, key=lambda token: -shares[token]) for _, shares in steps]
    return find_branches(
        np.array([token for token, _ in steps]),
        np.log([shares[token] for token, shares in steps]),
        np.array([tokens[:recorded] for tokens in ranked]),
        np.log(
            [
                [shares[token] for token in tokens[:recorded]]
                for (_, shares), tokens in zip(steps, ranked, strict=True)
            ]
        ),
        sampling=sampling,
        rule=rule,
    )


def as_dict(found: Branches, row: int = 0) -> dict[int, Any]:
    count = found.count[row]
    assert (found.probabilities[row, count:] == 0).all()
    return {
        token: pytest.approx(probability)
        for token, probability in zip(
            found.tokens[row, :count].tolist(),
            found.probabilities[row, :count].tolist(),
            strict=True,
        )
    }


SHARES = {7: 0.5, 3: 0.3, 9: 0.12, 1: 0.05, 2: 0.03}


def test_tokens_of_the_least_probability_are_branches_the_rollouts_own_first() -> None:
    found = find([(3, SHARES), (7, SHARES)])
    assert found.tokens.tolist() == [[3, 7, 9, 1], [7, 3, 9, 1]]
    assert found.count.tolist() == [4, 4]
    assert as_dict(found) == {3: 0.3 / 0.97, 7: 0.5 / 0.97, 9: 0.12 / 0.97, 1: 0.05 / 0.97}
    assert found.dropped == pytest.approx(0.03)


def test_the_rollouts_own_token_is_a_branch_however_improbable() -> None:
    found = find([(2, {7: 0.97, 2: 0.03}), (7, {7: 0.97, 2: 0.03})])
    assert as_dict(found) == {2: 0.03, 7: 0.97}
    assert found.tokens[0].tolist() == [2, 7]
    assert as_dict(found, 1) == {7: 1.0}
    assert found.dropped == pytest.approx([0, 0.03])


def test_the_rollouts_own_token_need_not_be_among_the_recorded() -> None:
    found = find([(2, SHARES)], recorded=2)
    assert as_dict(found) == {2: 0.03 / 0.83, 7: 0.5 / 0.83, 3: 0.3 / 0.83}
    assert found.dropped == pytest.approx(0.17)


def test_the_most_probable_ones_where_there_are_too_many() -> None:
    found = find([(1, SHARES)], rule=BranchRule(min_probability=0.05, max_branches=3))
    assert found.tokens.tolist() == [[1, 7, 3]]
    assert found.dropped == pytest.approx(0.15)
    alone = find([(9, SHARES)], rule=BranchRule(min_probability=0.05, max_branches=1))
    assert as_dict(alone) == {9: 1.0}
    assert alone.dropped == pytest.approx(0.88)


def test_greedy_continuations_take_the_most_probable_token() -> None:
    found = find([(3, SHARES), (7, SHARES)], sampling=Sampling(temperature=0))
    assert as_dict(found) == {3: 0.0, 7: 1.0}
    assert as_dict(found, 1) == {7: 1.0}
    assert found.dropped.tolist() == [0, 0]


def test_where_no_branch_has_mass_the_rollouts_own_token_is_alone() -> None:
    even = dict.fromkeys(range(39), 1 / 40) | {50: 1 / 40 - 1e-4}
    found = find([(50, even)], sampling=Sampling(top_k=20))
    assert as_dict(found) == {50: 1.0}
    assert found.dropped.tolist() == [1.0]


def test_what_the_draws_leave_out_is_no_branch() -> None:
    found = find([(7, SHARES), (1, SHARES)], sampling=Sampling(top_k=2))
    assert as_dict(found) == {7: 0.625, 3: 0.375}
    assert as_dict(found, 1) == {1: 0.0, 7: 0.625, 3: 0.375}
    assert found.dropped == pytest.approx([0, 0])
    assert as_dict(find([(7, SHARES)], sampling=Sampling(top_p=0.6))) == {7: 0.625, 3: 0.375}


def test_top_k_reaches_no_further_than_it_says_into_what_was_not_recorded() -> None:
    shares = {1: 0.5, 2: 0.3} | dict.fromkeys(range(3, 13), 0.02)
    found = find([(1, shares)], recorded=3, sampling=Sampling(top_k=4))
    assert as_dict(found) == {1: 0.625, 2: 0.375}
    assert found.dropped == pytest.approx(0.04 / 0.84)


def test_a_token_that_is_never_drawn_is_no_branch_at_any_threshold() -> None:
    rule = BranchRule(min_probability=0.0, max_branches=10)
    assert find([(7, SHARES)], sampling=Sampling(top_k=2), rule=rule).tokens.tolist() == [[7, 3]]


@given(
    seed=st.integers(0, 10**6),
    temperature=st.sampled_from([0.0, 0.6, 1.0, 1.7]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    top_k=st.sampled_from([0, 1, 4, 12, 30]),
    least=st.sampled_from([1e-9, 0.05]),
)
def test_the_probabilities_are_those_of_the_draws(
    seed: int, temperature: float, top_p: float, top_k: int, least: float
) -> None:
    """Everything is recorded here, so nothing is taken for granted."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(12, 0.5))
    sampling = Sampling(temperature, top_p, top_k)
    found = find(
        [(int(rng.choice(12, p=shares)), dict(enumerate(shares.tolist())))],
        sampling=sampling,
        rule=BranchRule(min_probability=least, max_branches=12),
    )
    drawn = sampling_probabilities(shares[None], temperature, top_p, top_k)[0]
    tokens = found.tokens[0, : found.count[0]]
    assert set(tokens[1:]) == set(np.flatnonzero(drawn >= least)) - {tokens[0]}
    mass = drawn[tokens].sum()
    assert found.dropped[0] == pytest.approx(1 - mass)
    if mass > 0:
        assert found.probabilities[0, : len(tokens)] == pytest.approx(drawn[tokens] / mass)
    assert found.probabilities[0].sum() == pytest.approx(1)


@given(
    seed=st.integers(0, 10**6), recorded=st.integers(2, 12), top_p=st.sampled_from([1.0, 0.9, 0.5])
)
def test_at_temperature_1_nothing_hangs_on_how_many_were_recorded(
    seed: int, recorded: int, top_p: float
) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(12, 0.5))
    steps = [(int(shares.argmax()), dict(enumerate(shares.tolist())))]
    rule = BranchRule(min_probability=0.05, max_branches=2)
    few = find(steps, recorded=recorded, rule=rule, sampling=Sampling(top_p=top_p))
    all_of_them = find(steps, rule=rule, sampling=Sampling(top_p=top_p))
    if top_p == 1 or np.sort(shares)[-recorded:].sum() >= top_p:
        assert as_dict(few) == as_dict(all_of_them)
        assert few.dropped == pytest.approx(all_of_them.dropped)


@given(seed=st.integers(0, 10**6), temperature=st.sampled_from([0.3, 0.7, 0.99]))
def test_below_temperature_1_what_was_not_recorded_is_no_less_than_it_is(
    seed: int, temperature: float
) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(30, 0.4))
    steps = [(int(shares.argmax()), dict(enumerate(shares.tolist())))]
    rule = BranchRule(min_probability=1e-12, max_branches=5)
    sampling = Sampling(temperature)
    few, all_of_them = (find(steps, recorded=n, rule=rule, sampling=sampling) for n in (5, None))
    assert few.dropped[0] >= all_of_them.dropped[0] - 1e-9
    assert as_dict(few) == as_dict(all_of_them)


def test_numbers_of_single_precision_lose_no_mass() -> None:
    """Rounding must not look like tokens that were not recorded."""
    shares = np.array([0.9, 0.09, 1e-2 - 1e-5 - 1e-8, 1e-5, 1e-8])
    logs = np.log(shares).astype(np.float32)
    assert np.exp(logs.astype(np.float64)).sum() < 1
    order = np.argsort(-logs)
    found = find_branches(
        order[:1],
        logs[order[:1]],
        order[None],
        logs[order][None],
        sampling=Sampling(temperature=3.0),
        rule=BranchRule(min_probability=1e-9, max_branches=6),
    )
    assert found.count.tolist() == [5]
    assert found.dropped == pytest.approx([0], abs=1e-12)


def test_no_tokens_have_no_branches() -> None:
    none = np.zeros(0)
    found = find_branches(
        none.astype(int),
        none,
        np.zeros((0, 5), int),
        np.zeros((0, 5)),
        sampling=Sampling(0.7),
        rule=RULE,
    )
    assert len(found.count) == len(found.tokens) == len(found.dropped) == 0

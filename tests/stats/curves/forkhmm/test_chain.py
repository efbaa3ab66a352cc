"""Forward-backward and joint draws against sums over all paths of short chains."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from refork.stats.curves.forkhmm import kernels
from refork.stats.curves.forkhmm.chain import LabelledChain, PlainChain, Splits
from refork.stats.curves.forkhmm.labels import SURE, TABLES, Spikes, split_tables, tables_of
from refork.stats.curves.forkhmm.states import States
from refork.stats.curves.forkhmm.sticks import Seen
from refork.stats.curves.forkhmm.transitions import Motion, transitions

Floats = NDArray[np.float64]
STATES, NODES = 5, 4
GRID = States.of(STATES)
MOVES = transitions(STATES, Motion(diffusion=0.3))
START = GRID.beta(0.8, 0.4, 1e-6)
LEVELS = np.array([24, 0, 27])


def steps(levels: NDArray[np.int64]) -> kernels.Steps:
    return kernels.Steps(levels, MOVES.matrices, MOVES.transposed)


def likelihood(seed: int, empty: int | None = None) -> Floats:
    random = np.random.default_rng(seed)
    trials = random.integers(1, 6, NODES).astype(np.float64)
    if empty is not None:
        trials[empty] = 0
    return Seen(
        random.binomial(trials.astype(np.int64), 0.6).astype(np.float64), trials
    ).likelihood(GRID)


def plain_paths(seen: Floats, levels: NDArray[np.int64]) -> Iterator[tuple[tuple[int, ...], float]]:
    """All paths of a plain chain and their joint probability with the draws."""
    for path in itertools.product(range(STATES), repeat=len(seen)):
        weight = START[path[0]]
        for node, state in enumerate(path):
            if node:
                weight *= MOVES.matrices[levels[node - 1], path[node - 1], state]
            weight *= seen[node, state]
        yield path, weight


def posterior(paths: list[tuple[tuple[int, ...], float]]) -> tuple[Floats, float]:
    total = sum(weight for _, weight in paths)
    marginal = np.zeros((len(paths[0][0]), STATES))
    for path, weight in paths:
        marginal[np.arange(len(path)), path] += weight / total
    return marginal, total


@pytest.mark.parametrize("empty", [None, 0, 1, 3])
def test_a_plain_chain_is_the_sum_over_all_paths(empty: int | None) -> None:
    seen = likelihood(1, empty)
    chain = PlainChain(steps(LEVELS), START, seen)
    expected, evidence = posterior(list(plain_paths(seen, LEVELS)))
    np.testing.assert_allclose(chain.now, expected, atol=1e-7)
    assert chain.after is chain.now
    assert chain.evidence == pytest.approx(np.log(evidence), abs=1e-9)


def test_nodes_between_which_nothing_moves_have_one_posterior() -> None:
    chain = PlainChain(steps(LEVELS), START, likelihood(2))
    np.testing.assert_allclose(chain.now[1], chain.now[2])
    drawn = chain.draw(200, np.random.default_rng(0))
    assert np.array_equal(drawn[:, 1], drawn[:, 2])


def test_a_chain_of_one_node_is_the_prior_times_the_likelihood() -> None:
    seen = likelihood(3)[:1]
    chain = PlainChain(steps(np.empty(0, np.int64)), START, seen)
    np.testing.assert_allclose(chain.now[0], START * seen[0] / (START @ seen[0]), atol=1e-7)
    assert set(np.unique(chain.draw(50, np.random.default_rng(0)))) <= set(range(STATES))


def frequencies(drawn: NDArray[np.int64]) -> dict[tuple[int, ...], float]:
    paths, counts = np.unique(drawn, axis=0, return_counts=True)
    return {
        tuple(path): count / len(drawn)
        for path, count in zip(paths.tolist(), counts.tolist(), strict=True)
    }


def test_joint_draws_of_a_plain_chain_have_the_probability_of_their_path() -> None:
    seen = likelihood(4)
    drawn = PlainChain(steps(LEVELS), START, seen).draw(40_000, np.random.default_rng(0))
    found, paths = frequencies(drawn), list(plain_paths(seen, LEVELS))
    total = sum(weight for _, weight in paths)
    for path, weight in paths:
        # Five standard errors.
        share = weight / total
        reach = 5 * np.sqrt(share * (1 - share) / 40_000) + 1e-6
        assert found.get(path, 0.0) == pytest.approx(share, abs=reach)


def labelled_paths(
    base: Floats, other: Floats, places: NDArray[np.int64], tables: kernels.Split
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """All paths (o_0, o_1, …), (s_1, s_2, …) of a labelled chain, r summed out, with the draws."""
    nodes = len(base)
    for path in itertools.product(range(STATES), repeat=2 * nodes):
        now, after = path[:nodes], path[nodes:]
        weight = START[now[0]]
        for node in range(nodes):
            if node:
                weight *= MOVES.matrices[LEVELS[node - 1], after[node - 1], now[node]]
            weight *= base[node, after[node]]
            if places[node] < 0:
                weight *= float(after[node] == now[node])
            else:
                weight *= split_weight(now[node], after[node], other[node], places[node], tables)
        yield now, after, weight


def split_weight(now: int, after: int, other: Floats, place: int, tables: kernels.Split) -> float:
    """Σ_r p(s, r | o) · likelihood of the other branches' draws."""
    weight = 0.0
    for rest in range(STATES):
        cell, share = tables.cell[place, after, rest], tables.share[place, after, rest]
        stands = (1 - share) * (cell == now) + share * (cell + 1 == now)
        weight += tables.spikes[after, rest] * other[rest] * stands
    return float(weight / tables.scale[place, now])


@pytest.fixture
def labelled() -> tuple[LabelledChain, list[tuple[tuple[int, ...], tuple[int, ...], float]]]:
    base, other = likelihood(5)[:3], likelihood(6)[:3]
    places = np.array([20, -1, 50])
    tables = split_tables(STATES, Spikes())
    chain = LabelledChain(steps(LEVELS[:2]), START, (base, other), Splits(places, tables))
    return chain, list(labelled_paths(base, other, places, tables))


def test_a_labelled_chain_is_the_sum_over_all_paths(
    labelled: tuple[LabelledChain, list[tuple[tuple[int, ...], tuple[int, ...], float]]],
) -> None:
    chain, paths = labelled
    now, _ = posterior([(now, weight) for now, _, weight in paths])
    after, _ = posterior([(after, weight) for _, after, weight in paths])
    np.testing.assert_allclose(chain.now, now, atol=1e-7)
    np.testing.assert_allclose(chain.after, after, atol=1e-7)


def test_joint_draws_of_a_labelled_chain_have_the_probability_of_their_path(
    labelled: tuple[LabelledChain, list[tuple[tuple[int, ...], tuple[int, ...], float]]],
) -> None:
    chain, paths = labelled
    total = sum(weight for _, _, weight in paths)
    expected: dict[tuple[int, ...], float] = {}
    for now, _, weight in paths:
        expected[now] = expected.get(now, 0.0) + weight / total
    found = frequencies(chain.draw(40_000, np.random.default_rng(0)))
    for path, share in expected.items():
        reach = 5 * np.sqrt(share * (1 - share) / 40_000) + 1e-6
        assert found.get(path, 0.0) == pytest.approx(share, abs=reach)


def test_without_splits_a_labelled_chain_is_a_plain_one() -> None:
    base = likelihood(7)
    splits = Splits(np.full(NODES, -1), split_tables(STATES, Spikes()))
    chain = LabelledChain(steps(LEVELS), START, (base, np.ones_like(base)), splits)
    plain = PlainChain(steps(LEVELS), START, base)
    np.testing.assert_allclose(chain.now, plain.now, atol=1e-12)
    np.testing.assert_allclose(chain.after, plain.now, atol=1e-12)


def test_chains_far_longer_than_numbers_are_small_stay_finite() -> None:
    nodes = 4000
    seen = Seen(np.full(nodes, 30.0), np.full(nodes, 30.0)).likelihood(GRID)
    chain = PlainChain(steps(np.full(nodes - 1, 5)), START, seen)
    np.testing.assert_allclose(chain.now.sum(axis=1), 1)
    assert np.isfinite(chain.evidence)


def test_spikes_are_distributions_that_mostly_stay_where_they_are() -> None:
    tables = split_tables(64, Spikes())
    np.testing.assert_allclose(tables.spikes.sum(axis=1), 1)
    assert np.array_equal(tables.spikes.argmax(axis=1), np.arange(64))


def test_a_split_puts_its_mixture_between_the_right_states() -> None:
    tables, x = split_tables(64, Spikes()), States.of(64).points
    for place, after, rest in [(0, 3, 60), (31, 10, 50), (63, 63, 0), (40, 20, 20)]:
        probability = (place + 0.5) / TABLES
        cell, share = tables.cell[place, after, rest], tables.share[place, after, rest]
        mixed = (1 - share) * x[cell] + share * x[cell + 1]
        assert mixed == pytest.approx(probability * x[after] + (1 - probability) * x[rest])


def test_positions_that_are_sure_unknown_or_undrawn_have_no_split() -> None:
    probability = np.array([0.5, 1.0, np.nan, 0.5, SURE, 0.999, 0.0])
    drawn = np.array([True, True, True, False, True, True, True])
    assert tables_of(probability, drawn).tolist() == [32, -1, -1, -1, -1, 63, 0]

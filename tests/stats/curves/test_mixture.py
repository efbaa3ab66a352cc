"""Mixture draws from recorded branches."""

import numpy as np
import pytest

from helpers.stores import made_store
from refork.errors import ReforkError
from refork.stats.curves.mixture import NONE, Recording, filled, seed_of


def recording(**sizes: int) -> Recording:
    """Token 0 has branches of 0.2, 0.1 (base) and 0.2, token 3 the base token's alone."""
    lengths = [sizes.get(name, 50) for name in ("first", "base", "third", "alone")]
    return Recording(
        positions=np.array([0, 3]),
        place=np.array([0, 0, 0, 1]),
        probability=np.array([0.2, 0.1, 0.2, 0.9]),
        is_base=np.array([False, True, False, True]),
        outcomes=tuple(np.full(size, k) for k, size in enumerate(lengths)),
        lengths=tuple(np.arange(size) for size in lengths),
        categories=4,
    )


def test_every_track_has_the_seeds_of_the_published_draws() -> None:
    assert seed_of("llama", 7) == (43_000_000, 7)
    assert seed_of("deepseek", 7) == (43_500_000, 7)
    assert seed_of("another", 0) == (43_000_000, 0)


def test_the_draws_are_those_of_the_position_s_own_generator() -> None:
    draws = recording().draw((7, 2), 50)
    chosen = np.random.default_rng([7, 2, 0]).choice(3, size=50, p=[0.4, 0.2, 0.4])
    assert draws.outcome[0].tolist() == chosen.tolist()
    assert draws.outcome[1].tolist() == [3] * 50


def test_the_base_branch_is_0_and_the_others_keep_their_order() -> None:
    draws = recording().draw((7, 2), 50)
    number = {0: 1, 1: 0, 2: 2}
    assert draws.branch[0].tolist() == [number[k] for k in draws.outcome[0].tolist()]
    assert set(draws.branch[1].tolist()) == {0}


def test_each_branch_is_consumed_in_the_order_of_recording() -> None:
    draws = recording().draw((7, 2), 50)
    for k in range(3):
        lengths = draws.length[0][draws.outcome[0] == k]
        assert lengths.tolist() == list(range(len(lengths)))


def test_fewer_draws_are_the_first_of_more() -> None:
    # Not the same numbers for another `size` by chance: the first of a larger pool are taken.
    draws = recording().draw((7, 2), 50)
    sample = draws.sample(0, 5)
    assert sample.outcome.tolist() == [*draws.outcome[0, :5], *draws.outcome[1, :5]]
    assert draws.sample(5, 5).outcome.tolist() == [
        *draws.outcome[0, 5:10],
        *draws.outcome[1, 5:10],
    ]


def test_an_exhausted_branch_is_drawn_again_among_the_others() -> None:
    draws = recording(first=3).draw((7, 2), 50)
    plain = np.random.default_rng([7, 2, 0]).choice(3, size=50, p=[0.4, 0.2, 0.4])
    counts = np.bincount(draws.outcome[0], minlength=3)
    assert counts[0] == 3
    assert counts.sum() == 50
    kept = plain != 0
    assert draws.outcome[0][kept].tolist() == plain[kept].tolist()
    assert set(draws.outcome[0][np.flatnonzero(~kept)[3:]].tolist()) == {1, 2}


def test_everything_recorded_can_be_drawn() -> None:
    draws = recording(first=20, base=15, third=15).draw((7, 2), 50)
    assert np.bincount(draws.outcome[0]).tolist() == [20, 15, 15]


def test_more_than_was_recorded_is_refused() -> None:
    with pytest.raises(ReforkError, match="token 3: 49 recorded draws, 50 are wanted"):
        recording(alone=49).draw((7, 2), 50)


def test_probabilities_of_the_base_path() -> None:
    one = recording()
    np.testing.assert_allclose(one.base_probability, [0.2, np.nan, np.nan, 1])
    np.testing.assert_allclose(one.dropped, [0.5, np.nan, np.nan, 0.1])
    np.testing.assert_allclose(one.curve, [[0.4, 0.2, 0.4, 0], [0, 0, 0, 1.0]])


def test_a_skipped_position_has_no_draws_and_the_next_one_s_curve() -> None:
    store = made_store()
    branches = [
        branch.model_copy(update={"answers": [], "cont_lens": []}) if branch.t == 4 else branch
        for branch in store.branches
    ]
    skipping = store.model_copy(update={"branches": branches}).recording
    draws = skipping.draw((1, 0), 40)
    assert np.flatnonzero(~draws.drawn).tolist() == [4]
    assert set(draws.outcome[4].tolist()) == {NONE}
    assert draws.counts().sum(axis=1).tolist() == [40] * 4 + [0] + [40] * 7
    sample = draws.sample(0, 5)
    assert sample.draws.tolist() == [5] * 4 + [0] + [5] * 7
    assert skipping.curve[4].tolist() == skipping.curve[5].tolist()


def test_a_stride_leaves_positions_out_and_keeps_the_base_path() -> None:
    sample = made_store().recording.draw((1, 0), 40).sample(10, 3, stride=5)
    assert sample.positions.tolist() == [0, 5, 10]
    assert sample.draws.tolist() == [3, 3, 3]
    assert len(sample.base_probability) == 11
    assert not np.isnan(sample.base_probability).any()


def test_blocks_add_to_all() -> None:
    draws = made_store().recording.draw((1, 0), 40)
    assert (draws.counts(0, 15) + draws.counts(15, 25)).tolist() == draws.counts().tolist()


def test_what_nothing_follows_takes_the_last_curve() -> None:
    curve = np.array([[0.0, 0], [1, 0], [0, 0], [0, 1], [0, 0]])
    drawn = np.array([False, True, False, True, False])
    assert filled(curve, drawn).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    with pytest.raises(ReforkError, match="no draws at any position"):
        filled(curve, np.zeros(5, dtype=bool))

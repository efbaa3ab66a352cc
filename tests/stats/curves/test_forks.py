"""Forks and error bars of joint draws, by hand."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from refork.stats.curves.forks import (
    WIDEST,
    find_forks,
    first_fork,
    intervals,
    jump_probability,
    survival,
)

Floats = NDArray[np.float64]


def curves(*draws: list[float]) -> Floats:
    """Make curves of two categories, a draw a list of the first one's probabilities."""
    first = np.array(draws)
    return np.stack([first, 1 - first], axis=-1)


def steps_at(places: list[int | None], size: int) -> Floats:
    """Make curves that step from 0.2 to 0.8 at a place each, or never."""
    ends = [size if place is None else place for place in places]
    return curves(*([0.2] * end + [0.8] * (size - end) for end in ends))


def test_a_step_jumps_as_often_as_draws_move_further_than_epsilon() -> None:
    drawn = curves([0.2, 0.25, 0.6], [0.2, 0.4, 0.4], [0.5, 0.5, 0.1], [0.5, 0.5, 0.5])
    np.testing.assert_allclose(jump_probability(drawn, 0.1), [0.25, 0.5])
    np.testing.assert_allclose(jump_probability(drawn, 0.37), [0.0, 0.25])


def test_moves_are_total_variation_over_all_categories() -> None:
    drawn = np.array([[[0.5, 0.5, 0.0], [0.3, 0.4, 0.3]]])
    assert jump_probability(drawn, 0.29).tolist() == [1.0]
    assert jump_probability(drawn, 0.31).tolist() == [0.0]


def test_a_jump_whose_place_is_unknown_is_not_the_difference_of_means() -> None:
    drawn = steps_at([1, 2, 3, 4], 5)
    np.testing.assert_allclose(jump_probability(drawn, 0.5), 0.25)
    assert np.abs(np.diff(drawn.mean(axis=0)[:, 0])).max() < 0.5


def test_intervals_are_equal_tailed() -> None:
    first = np.linspace(0.2, 0.8, 101)
    low, high = intervals(curves(*([value] for value in first)), 0.9)
    np.testing.assert_allclose(low, [[0.23, 0.23]])
    np.testing.assert_allclose(high, [[0.77, 0.77]])


def test_bounds_beside_0_and_1_are_0_and_1() -> None:
    low, high = intervals(curves([1e-4], [2e-4], [3e-4]), 0.5)
    np.testing.assert_allclose(low, [[0.0, 1 - 2.5e-4]])
    np.testing.assert_allclose(high, [[2.5e-4, 1.0]])


@pytest.mark.parametrize("level", [0.0, 1.0, 90.0, np.nan])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match=r"level: .*between 0 and 1"):
        intervals(curves([0.5]), level)


def test_on_a_dense_grid_a_fork_is_one_token() -> None:
    drawn = steps_at([3, 3, 3, None], 6)
    [fork] = find_forks(drawn, np.arange(10, 16), 0.1)
    assert (fork.first, fork.last, fork.probability) == (12, 13, 0.75)
    assert fork.distance == pytest.approx(0.6)


def test_on_a_coarse_grid_a_fork_is_an_interval_of_tokens() -> None:
    [fork] = find_forks(steps_at([2, 2], 4), np.array([0, 16, 40, 64]), 0.1)
    assert (fork.first, fork.last, fork.probability) == (16, 40, 1.0)


def test_draws_that_differ_by_some_tokens_agree_on_one_fork() -> None:
    drawn = steps_at([4, 5, 5, 6], 10)
    assert jump_probability(drawn, 0.1).max() == 0.5
    [fork] = find_forks(drawn, np.arange(10), 0.1, least=0.9)
    assert (fork.first, fork.last, fork.probability) == (3, 6, 1.0)
    assert fork.distance == pytest.approx(0.6)


def test_an_interval_is_as_narrow_as_holds_the_fork() -> None:
    drawn = steps_at([4, 5, 5, 5, 6], 10)
    [fork] = find_forks(drawn, np.arange(10), 0.1)
    assert (fork.first, fork.last, fork.probability) == (4, 5, 0.6)


def test_steps_in_which_no_draw_forks_are_no_part_of_a_fork() -> None:
    assert find_forks(steps_at([2, 2, 6, 6], 9), np.arange(9), 0.1, least=0.9) == []


def test_nothing_is_as_probable_as_is_asked_for() -> None:
    drawn = steps_at([3, None, None], 6)
    assert find_forks(drawn, np.arange(6), 0.1) == []
    assert find_forks(steps_at([None, None], 6), np.arange(6), 0.1, least=0.01) == []
    assert find_forks(steps_at([3, 3], 6), np.arange(6), 0.7) == []


def test_forks_do_not_overlap_and_are_in_order() -> None:
    random = np.random.default_rng(0)
    drawn = random.dirichlet([0.7] * 3, (20, 40))
    found = find_forks(drawn, np.arange(0, 80, 2), 0.4, least=0.8)
    assert len(found) > 3
    for one, other in itertools.pairwise(found):
        assert one.last <= other.first
    for fork in found:
        assert 0.8 <= fork.probability <= 1
        assert 0 < fork.last - fork.first <= 2 * WIDEST


def test_one_position_has_no_steps() -> None:
    one = curves([0.5], [0.7])
    assert jump_probability(one, 0.1).shape == (0,)
    assert find_forks(one, np.array([0]), 0.1) == []
    assert first_fork(one, 0.1).shape == (0,)


def test_only_the_first_fork_of_a_draw_counts() -> None:
    drawn = curves([0.1, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.1], [0.1] * 4, [0.1, 0.9, 0.9, 0.9])
    np.testing.assert_allclose(first_fork(drawn, 0.5), [0.5, 0.25, 0.0])


def test_survival_of_certain_forks_is_that_of_kaplan_and_meier() -> None:
    """Forks in steps 0, 1 and 3; two questions censored behind steps 1 and 2."""
    pooled = survival(
        [
            np.array([1.0, 0, 0, 0]),
            np.array([0, 1.0, 0, 0]),
            np.array([0, 0, 0, 1.0]),
            np.array([0.0, 0]),
            np.array([0.0, 0, 0]),
        ]
    )
    np.testing.assert_allclose(pooled.at_risk, [5, 4, 2, 1])
    np.testing.assert_allclose(pooled.hazard, [1 / 5, 1 / 4, 0, 1])
    np.testing.assert_allclose(pooled.surviving, [4 / 5, 3 / 5, 3 / 5, 0], atol=1e-12)


def test_one_question_survives_by_what_is_left_of_its_first_forks() -> None:
    pooled = survival([np.array([0.5, 0.25, 0.0])])
    np.testing.assert_allclose(pooled.at_risk, [1, 0.5, 0.25])
    np.testing.assert_allclose(pooled.hazard, [0.5, 0.5, 0])
    np.testing.assert_allclose(pooled.surviving, [0.5, 0.25, 0.25])


def test_where_no_question_is_left_there_is_no_hazard() -> None:
    pooled = survival([np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.0, 1.0])])
    np.testing.assert_allclose(pooled.at_risk, [2, 2, 0, 0])
    np.testing.assert_allclose(pooled.hazard, [0, 1, np.nan, np.nan])
    np.testing.assert_allclose(pooled.surviving, [1, 0, 0, 0])


def test_of_no_questions_nothing_is_known() -> None:
    assert survival([]).surviving.shape == (0,)


def test_survival_is_never_below_nothing() -> None:
    shares = np.full(10, 0.1)
    shares[-1] += 1e-9
    assert (survival([shares, shares * (1 + 1e-9)]).surviving >= 0).all()

"""Positions whose curve is known to be that of a later one."""

import numpy as np

from refork.stats.curves.full import Full
from refork.stats.curves.raw import Raw
from refork.stats.curves.sample import sample_from_counts
from refork.stats.curves.skipped import Skipped

COUNTS = np.array([[30, 0], [0, 0], [0, 0], [0, 30], [0, 0], [0, 30], [0, 0]])


def skipped(base: list[float], positions: list[int] | None = None) -> Skipped:
    grid = list(range(7)) if positions is None else positions
    return Skipped.of(sample_from_counts(grid, COUNTS, base_probability=np.array(base)))


def test_the_next_draws_stand_in_where_the_path_to_them_is_certain() -> None:
    found = skipped([0.5, 1, 1, 0.5, 1, 0.5, 1])
    assert list(found.stand_ins([6, 5, 4, 3, 2, 1, 0, 9])) == [6, 5, 5, 3, 3, 3, 0, 9]


def test_an_uncertain_or_unknown_step_on_the_way_breaks_it() -> None:
    for step in (0.9, np.nan):
        found = skipped([0.5, 1, step, 0.5, step, 0.5, 1])
        assert list(found.stand_ins(np.arange(7))) == list(range(7))


def test_tokens_between_the_positions_of_the_grid_count_too() -> None:
    base = np.ones(13)
    assert list(skipped(list(base), list(range(0, 14, 2))).positions) == [2, 4, 8]
    base[5] = 0.5
    assert list(skipped(list(base), list(range(0, 14, 2))).positions) == [8]


def test_curves_jump_where_the_fork_is() -> None:
    base = np.array([0.5, 1, 1, 0.5, 1, 0.5, 1])
    sample = sample_from_counts(range(7), COUNTS, base_probability=base)
    np.testing.assert_allclose(Raw().fit(sample).mean([0, 1, 2])[:, 0], [1, 0, 0])
    fit = Full(penalty=2, bandwidth=8, min_size=1).fit(sample)
    assert fit.change_points is not None
    assert list(fit.change_points) == [3]
    curve = fit.mean(np.arange(4))[:, 0]
    assert curve[0] > 0.9
    assert (curve[1:] < 0.1).all()

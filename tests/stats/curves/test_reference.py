"""Jumps of a reference curve and the positions near them."""

import numpy as np

from refork.stats.curves.reference import jump_regions, jumps, near, total_variation

POSITIONS = np.array([0, 5, 20, 30, 41, 60])
FIRST = np.array([0.5, 0.5, 0.62, 0.62, 0.8, 0.55])
CURVE = np.stack([FIRST, 1 - FIRST], axis=1)


def test_the_distance_is_half_the_sum_of_differences() -> None:
    one, other = np.array([[0.5, 0.3, 0.2]]), np.array([[0.2, 0.3, 0.5]])
    np.testing.assert_allclose(total_variation(one, other), [0.3])


def test_a_jump_is_where_the_curve_has_moved() -> None:
    assert jumps(POSITIONS, CURVE, 0.10).tolist() == [20, 41, 60]
    assert jumps(POSITIONS, CURVE, 0.15).tolist() == [41, 60]
    assert jumps(POSITIONS, CURVE, 0.20).tolist() == [60]
    assert jumps(POSITIONS, CURVE, 0.30).tolist() == []


def test_near_is_ten_tokens_not_ten_positions() -> None:
    assert near(POSITIONS, np.array([41])).tolist() == [False, False, False, False, True, False]
    assert near(POSITIONS, np.array([40])).tolist() == [False, False, False, True, True, False]
    assert near(POSITIONS, np.array([50])).tolist() == [False, False, False, False, True, True]
    assert not near(POSITIONS, np.array([], dtype=np.int64)).any()


def test_regions_shrink_as_the_threshold_grows() -> None:
    regions = jump_regions(POSITIONS, CURVE)
    assert list(regions) == [0.10, 0.15, 0.20]
    assert regions[0.10].tolist() == [False, False, True, True, True, True]
    assert regions[0.15].tolist() == [False, False, False, False, True, True]
    assert regions[0.20].tolist() == [False, False, False, False, False, True]

"""Observed shares."""

import numpy as np

from refork.stats.curves.raw import Raw
from refork.stats.curves.sample import sample_from_counts


def test_shares_with_straight_lines_between() -> None:
    counts = np.array([[4, 0], [0, 0], [1, 3]])
    fit = Raw().fit(sample_from_counts([2, 4, 10], counts))
    first = [1, 1, 0.8125, 0.25, 0.25]
    np.testing.assert_allclose(fit.mean([0, 2, 4, 10, 11])[:, 0], first)
    np.testing.assert_allclose(fit.mean([0, 2, 4, 10, 11]).sum(axis=1), 1)
    assert fit.sd([0, 2]) is None
    assert fit.change_points is None

"""Zero crossings, polarity reversals and the pooled excess."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refork.stats.flips import Flips, count_flips, pooled_excess
from refork.stats.missing import Missing

signs = st.lists(st.tuples(st.sampled_from((-1, 0, 1)), st.sampled_from((-1, 0, 1))), min_size=1)


def test_every_pair_of_signs() -> None:
    reference = np.repeat([-1, 0, 1], 3)
    other = np.tile([-1, 0, 1], 3)
    flips = count_flips(reference, other, np.ones(9, dtype=bool))
    assert flips == Flips(n=9, zero_crossings=4, polarity_reversals=2)
    assert flips.flips == 6
    assert flips.flip_rate == 6 / 9
    assert flips.polarity_rate == 2 / 9


@given(signs)
def test_the_two_kinds_are_all_flips_and_flips_are_symmetric(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, dtype=np.int8).T
    among = np.ones(len(pairs), dtype=bool)
    assert count_flips(one, other, among).flips == np.count_nonzero(one != other)
    assert count_flips(one, other, among) == count_flips(other, one, among)


def test_only_the_chosen_pivots_count() -> None:
    flips = count_flips(np.array([1, 1]), np.array([-1, 0]), np.array([True, False]))
    assert flips == Flips(n=1, zero_crossings=0, polarity_reversals=1)


def test_the_excess_is_of_the_same_pivots() -> None:
    assert pooled_excess(Flips(8, 3, 1), Flips(8, 2, 0)) == 0.25
    with pytest.raises(ValueError, match="8 pivots, its floor has 7"):
        pooled_excess(Flips(8, 3, 1), Flips(7, 2, 0))


def test_no_pivots_no_rates() -> None:
    none = Flips(0, 0, 0)
    assert none.flip_rate == none.polarity_rate == Missing("no eligible pivots")
    assert pooled_excess(none, none) == Missing("no eligible pivots")

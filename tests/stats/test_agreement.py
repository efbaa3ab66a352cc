"""Jaccard indices and sources of eligibility."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refork.stats.agreement import EligibilitySources, eligibility_sources, jaccard
from refork.stats.credit import eligible
from refork.stats.missing import Missing

sign = st.sampled_from((-1, 0, 1))


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_jaccard_of_sets(pairs: list[tuple[bool, bool]]) -> None:
    one = {i for i, pair in enumerate(pairs) if pair[0]}
    other = {i for i, pair in enumerate(pairs) if pair[1]}
    masks = np.array(pairs, dtype=bool).reshape(-1, 2)
    found = jaccard(masks[:, 0], masks[:, 1])
    if one | other:
        assert found == len(one & other) / len(one | other)
        assert found == jaccard(masks[:, 1], masks[:, 0])
    else:
        assert found == Missing("no critical token in either pass")


def test_each_source_of_eligibility() -> None:
    reference, floor, treatment = np.array(list(product((0, 1), repeat=3))).T
    assert eligibility_sources(reference, floor, treatment) == EligibilitySources(4, 1, 1, 1)


@given(st.lists(st.tuples(sign, sign, sign), min_size=1))
def test_sources_add_up_to_the_common_set(triples: list[tuple[int, int, int]]) -> None:
    signs = np.array(triples, dtype=np.int8).T
    found = eligibility_sources(*signs)
    together = found.reference + found.treatment_only + found.floor_only
    assert together + found.treatment_and_floor_only == np.count_nonzero(eligible(*signs))

"""Greedy probes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refork.stats.missing import Missing
from refork.stats.probes import UNKNOWN, Probes, summarise_probes


def test_probes_are_summarised_as_published() -> None:
    found = summarise_probes(np.array([1, 0, 0, 0]), np.array([0.0, 0.25, 0.5, 0.0]))
    assert found == Probes(0.25, 0.5, median_nonzero_delta=0.5, p90_delta=0.5)


@given(st.lists(st.floats(0, 10), min_size=1))
def test_p90_is_an_order_statistic(delta: list[float]) -> None:
    found = summarise_probes(np.zeros(len(delta), dtype=np.int8), np.array(delta))
    assert found.p90_delta == sorted(delta)[int(0.9 * len(delta))]


def test_what_was_not_recorded_is_left_out() -> None:
    found = summarise_probes(np.array([1, UNKNOWN, 0]), np.array([np.nan, np.nan, 0.0]))
    assert (found.divergence_rate, found.bit_exact_rate, found.p90_delta) == (0.5, 1.0, 0.0)
    assert found.median_nonzero_delta == Missing("no probe differs at all")


def test_without_probes_every_quantity_is_missing() -> None:
    found = summarise_probes(np.array([UNKNOWN]), np.array([np.nan]))
    assert found.divergence_rate == found.bit_exact_rate == found.p90_delta
    assert found.median_nonzero_delta == found.p90_delta
    assert found.divergence_rate == Missing("no greedy probes")

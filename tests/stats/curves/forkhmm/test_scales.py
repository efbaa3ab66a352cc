"""Scales of the motion by their evidence."""

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm.scales import SCALES, USUAL, Scale, probable
from refork.stats.curves.forkhmm.sticks import Seen
from refork.stats.curves.forkhmm.transitions import Motion, Transitions

SLOW, FAST = Scale(0.25, 0.25), Scale(64, 1)
LEVELS = Transitions.level(np.full(99, 0.1))


def seen(rate: NDArray[np.float64]) -> list[Seen]:
    """Give one stick with 30 draws a position, hits as near to the rate as whole numbers are."""
    trials = np.full(len(rate), 30.0)
    return [Seen(np.rint(30 * rate), trials)]


STILL = seen(np.full(100, 0.5))
WAVE = seen(0.5 + 0.4 * np.sin(np.arange(100) / 5))


def tried(
    scales: tuple[Scale, ...], stick: list[Seen], least: float = 0.0, most: int = 9
) -> list[tuple[Scale, float]]:
    return probable(scales, Motion(), stick, LEVELS, informed=True, least=least, most=most)


def test_a_curve_that_moves_faster_has_a_faster_scale() -> None:
    assert tried((SLOW, FAST), STILL)[0][0] == SLOW
    assert tried((SLOW, FAST), WAVE)[0][0] == FAST


def test_the_most_probable_is_first_and_all_add_to_1() -> None:
    found = tried(SCALES, STILL)
    weights = [weight for _, weight in found]
    assert len(found) == len(SCALES)
    assert weights == sorted(weights, reverse=True)
    np.testing.assert_allclose(sum(weights), 1)


def test_at_most_so_many_are_kept() -> None:
    everything, kept = tried(SCALES, STILL), tried(SCALES, STILL, most=2)
    assert [scale for scale, _ in kept] == [scale for scale, _ in everything[:2]]
    np.testing.assert_allclose(sum(weight for _, weight in kept), 1)


def test_scales_less_probable_than_the_least_are_left_out() -> None:
    everything = tried(SCALES, STILL)
    least = (everything[0][1] + everything[1][1]) / 2
    assert tried(SCALES, STILL, least=least) == [(everything[0][0], 1.0)]


def test_the_prior_decides_between_equals() -> None:
    rare, usual = Scale(prior=0.2), Scale(prior=0.6)
    found = tried((rare, usual), STILL)
    assert [scale for scale, _ in found] == [usual, rare]
    np.testing.assert_allclose([weight for _, weight in found], [0.75, 0.25])


def test_one_scale_needs_no_evidence() -> None:
    assert tried(USUAL, WAVE) == [(USUAL[0], 1.0)]


def test_a_scale_multiplies_the_rates() -> None:
    usual, moved = Motion(), Scale(8, 4).of(Motion())
    assert moved.diffusion == 8 * usual.diffusion
    assert [jump.rate for jump in moved.jumps] == [4 * jump.rate for jump in usual.jumps]
    assert [jump.spread for jump in moved.jumps] == [jump.spread for jump in usual.jumps]
    assert moved.reset == 4 * usual.reset

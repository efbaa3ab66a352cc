"""Motion of a stick: closed forms of its matrices."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import beta

from refork.stats.curves.forkhmm.states import States
from refork.stats.curves.forkhmm.transitions import (
    LEAST,
    LEVELS,
    MOST,
    Diffusion,
    Jump,
    Motion,
    Transitions,
    generator,
    jump_kernel,
    transitions,
)


def test_states_are_cells_of_equal_angle_that_fill_the_unit_interval() -> None:
    grid = States.of(64)
    np.testing.assert_allclose(
        np.arcsin(np.sqrt(grid.points)), (np.arange(64) + 0.5) * np.pi / 128, atol=1e-12
    )
    assert (grid.edges[0], grid.edges[-1]) == (0.0, 1.0)
    assert np.all(grid.edges[:-1] < grid.points)
    assert np.all(grid.points < grid.edges[1:])
    np.testing.assert_allclose(grid.at(np.arange(64, dtype=np.float64) + 0.5), grid.points)


def test_a_stick_has_two_states_at_least() -> None:
    with pytest.raises(ValueError, match="2 states at least, not 1"):
        States.of(1)


def test_mass_of_a_beta_distribution_in_the_cells() -> None:
    grid = States.of(16)
    mass = np.diff(beta.cdf(grid.edges, 0.8, 0.4))
    np.testing.assert_allclose(grid.beta(0.8, 0.4, 0.0), mass)
    assert grid.beta(500.0, 500.0, 1e-6)[0] == pytest.approx(1e-6, rel=1e-4)


def test_every_row_of_every_level_is_a_distribution_and_level_0_stands_still() -> None:
    moves = transitions(64, Motion())
    assert moves.matrices.shape == (LEVELS + 1, 64, 64)
    assert np.all(moves.matrices >= 0)
    np.testing.assert_allclose(moves.matrices.sum(axis=2), 1)
    assert np.array_equal(moves.matrices[0], np.eye(64))
    assert np.array_equal(moves.transposed, moves.matrices.transpose(0, 2, 1))


def test_the_generator_keeps_the_mean_and_has_the_variance_of_wright_and_fisher() -> None:
    grid = States.of(48)
    rates, x = generator(grid), grid.points
    np.testing.assert_allclose(rates.sum(axis=1), 0, atol=1e-9)
    np.testing.assert_allclose((rates @ x)[1:-1], 0, atol=1e-9)
    spread = (rates * (x[None, :] - x[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(spread[1:-1], (2 * x * (1 - x))[1:-1])


@pytest.mark.parametrize("time", [0.0, 1e-4, 0.02, 1.5])
def test_diffusion_is_the_exponential_of_its_generator(time: float) -> None:
    grid = States.of(32)
    np.testing.assert_allclose(
        Diffusion.on(grid).over(time), expm(time * generator(grid)), atol=1e-10
    )


@pytest.mark.parametrize("spread", [0.012, 0.12])
def test_jumps_keep_the_mean_and_have_their_variance(spread: float) -> None:
    grid = States.of(256)
    kernel, x = jump_kernel(grid, spread), grid.points
    # Up to the width of a cell, in which a jump may end anywhere.
    np.testing.assert_allclose(kernel @ x, x, atol=1e-3)
    variance = kernel @ x**2 - (kernel @ x) ** 2
    np.testing.assert_allclose(variance, 4 * spread * x * (1 - x), atol=1e-3)


@pytest.mark.parametrize("spread", [0.0, 0.25])
def test_a_jump_has_a_spread_that_a_distribution_can_have(spread: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1/4"):
        jump_kernel(States.of(8), spread)


def test_a_step_without_resets_keeps_the_mean_at_every_level() -> None:
    moves, grid = transitions(64, Motion(reset=0.0)), States.of(64)
    for matrix in moves.matrices[: Transitions.level(np.array([4.0]))[0]]:
        np.testing.assert_allclose(matrix @ grid.points, grid.points, atol=2e-3)


def test_a_reset_forgets_where_the_curve_was() -> None:
    motion = Motion(diffusion=0.0, jumps=(), reset=50.0)
    last = transitions(32, motion).matrices[-1]
    np.testing.assert_allclose(last, np.broadcast_to(last[0], last.shape), atol=1e-12)
    np.testing.assert_allclose(last[0], States.of(32).beta(0.6, 0.4, 1e-6), atol=1e-12)


def test_more_information_moves_further() -> None:
    moves, grid = transitions(64, Motion()), States.of(64)
    spread = [row @ (grid.points - grid.points[32]) ** 2 for row in moves.matrices[:, 32]]
    assert np.all(np.diff(spread) > 0)


def test_jumps_come_by_their_rate() -> None:
    motion = Motion(diffusion=0.0, jumps=(Jump(0.5, 0.1),), reset=0.0)
    level = 12
    information = np.geomspace(LEAST, MOST, LEVELS)[level - 1]
    jumped, kernel = 1 - np.exp(-0.5 * information), jump_kernel(States.of(24), 0.1)
    np.testing.assert_allclose(
        transitions(24, motion).matrices[level], (1 - jumped) * np.eye(24) + jumped * kernel
    )


def test_levels_are_the_nearest_by_ratio() -> None:
    levels = np.geomspace(LEAST, MOST, LEVELS)
    assert np.array_equal(Transitions.level(levels), np.arange(1, LEVELS + 1))
    assert np.array_equal(Transitions.level(levels * 1.2), np.arange(1, LEVELS + 1))
    assert Transitions.level(np.array([0.0, 0.69e-4, 0.71e-4, 1e9])).tolist() == [0, 0, 1, LEVELS]

"""Information time of a base path."""

import numpy as np

from refork.stats.curves.forkhmm.information import Information

RULE = Information(power=2.0, always=0.01, unknown=0.05)


def test_a_step_carries_what_the_base_token_left_open_and_what_the_next_one_dropped() -> None:
    time = RULE.time(np.array([1.0, 0.5, 0.9]), np.array([0.7, 0.2, 0.1]))
    np.testing.assert_allclose(time, [0, 0 + 0.04 + 0.01, 0.05 + 0.25 + 0.01 + 0.01])


def test_steps_that_are_not_known_altogether_carry_the_same() -> None:
    time = RULE.time(np.array([0.5, np.nan, 1.0, 1.0]), np.array([0.0, 0.0, np.nan, 0.0]))
    np.testing.assert_allclose(np.diff(time), [0.25 + 0.01, 0.05, 0.01])
    nothing = np.full(3, np.nan)
    np.testing.assert_allclose(RULE.time(nothing, nothing), [0, 0.05, 0.1])


def test_splits_and_still_tokens_do_not_move_the_curve() -> None:
    probability, dropped = np.array([0.5, 0.5, 1.0, 1.0]), np.zeros(4)
    time = RULE.time(probability, dropped, split=np.array([0]), still=np.array([2, 3]))
    np.testing.assert_allclose(np.diff(time), [0.01, 0.25 + 0.01, 0.0])


def test_the_sample_is_left_as_it_is() -> None:
    probability, dropped = np.array([0.5, 1.0]), np.zeros(2)
    RULE.time(probability, dropped, split=np.array([0]), still=np.array([0]))
    assert probability.tolist() == [0.5, 1.0]


def test_probabilities_that_rounding_puts_above_1_are_1() -> None:
    time = RULE.time(np.array([1 + 1e-7, 1.0]), np.array([0.0, -1e-9]))
    np.testing.assert_allclose(time, [0, 0.01])

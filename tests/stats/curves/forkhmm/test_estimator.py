"""ForkHMM on made questions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from refork.errors import ReforkError
from refork.stats.curves.forkhmm import ForkHMM
from refork.stats.curves.forks import jump_probability
from refork.stats.curves.sample import CurveSample, sample_from_counts

Floats = NDArray[np.float64]


def step_sample(step: int = 30, size: int = 60, draws: int = 20) -> CurveSample:
    """One category is certain nearly, then another."""
    counts = np.tile([draws - 1, 1, 0], (size, 1))
    counts[step:] = [1, draws - 1, 0]
    return sample_from_counts(np.arange(size), counts)


def split_sample() -> CurveSample:
    """At token 3 the base token leads to category 0, the others to 1, half of the draws each."""
    counts = np.tile([20, 20], (4, 1))
    sample = sample_from_counts(
        np.arange(4),
        counts,
        base_probability=np.array([1.0, 1.0, 1.0, 0.5]),
        dropped=np.zeros(4),
    )
    at_split = sample.place == 3
    return replace(sample, branch=np.where(at_split, sample.outcome, 0))


def test_a_certain_question_is_certain() -> None:
    fit = ForkHMM().fit(sample_from_counts(np.arange(50), np.tile([0, 10], (50, 1))))
    assert fit.mean(np.arange(50))[:, 1].min() > 0.99
    assert fit.sd(np.arange(50)).max() < 0.02


def test_a_step_is_found_where_it_is() -> None:
    sample = step_sample()
    fit = ForkHMM().fit(sample)
    jumped = jump_probability(fit.draws(300, 0), 0.2)
    assert jumped.argmax() == 29
    assert jumped[29] > 0.9
    assert np.delete(jumped, 29).max() < 0.1
    truth = np.where(np.arange(60)[:, None] < 30, [0.95, 0.05, 0.0], [0.05, 0.95, 0.0])
    assert np.abs(fit.mean(sample.positions) - truth).max() < 0.1


def test_a_position_without_draws_is_read_from_its_neighbours() -> None:
    counts = np.tile([9, 1], (7, 1))
    drawn = ForkHMM().fit(sample_from_counts(np.arange(7), counts))
    counts[3] = 0
    fit = ForkHMM().fit(sample_from_counts(np.arange(7), counts))
    mean = fit.mean(np.arange(7))[:, 0]
    assert mean[3] == pytest.approx((mean[2] + mean[4]) / 2, abs=0.01)
    assert fit.sd([3])[0, 0] > drawn.sd([3])[0, 0]


def test_one_position_with_draws_serves_all() -> None:
    counts = np.array([[0, 0], [16, 4], [0, 0]])
    fit = ForkHMM().fit(sample_from_counts([0, 5, 10], counts))
    mean, sd = fit.mean([0, 5, 10])[:, 0], fit.sd([0, 5, 10])[:, 0]
    assert np.abs(mean - 0.8).max() < 0.05
    assert sd[1] < min(sd[0], sd[2])


def test_one_category_has_all() -> None:
    fit = ForkHMM().fit(sample_from_counts(np.arange(5), np.full((5, 1), 3)))
    np.testing.assert_array_equal(fit.mean(np.arange(5)), 1.0)
    np.testing.assert_array_equal(fit.sd(np.arange(5)), 0.0)
    np.testing.assert_array_equal(fit.draws(4, 0), np.ones((4, 5, 1)))


def test_categories_stay_in_the_order_of_the_sample() -> None:
    counts = np.tile([2, 10, 0, 5], (30, 1))
    turn = np.array([2, 0, 3, 1])
    one = ForkHMM().fit(sample_from_counts(np.arange(30), counts))
    other = ForkHMM().fit(sample_from_counts(np.arange(30), counts[:, turn]))
    query = np.arange(30)
    assert one.mean(query)[15].argsort().tolist() == [2, 0, 3, 1]
    np.testing.assert_allclose(other.mean(query), one.mean(query)[:, turn], atol=1e-12)
    np.testing.assert_allclose(other.sd(query), one.sd(query)[:, turn], atol=1e-12)


def test_labels_tell_where_the_base_token_leads() -> None:
    sample = split_sample()
    on, off = ForkHMM(labels=True).fit(sample), ForkHMM(labels=False).fit(sample)
    assert (on.chosen["labels"], off.chosen["labels"]) == ("on", "off")
    assert on.mean([3])[0, 0] == pytest.approx(0.5, abs=0.1)
    assert on.mean([4])[0, 0] > 0.75
    np.testing.assert_allclose(off.mean([4]), off.mean([3]))


def test_without_base_probabilities_labels_change_nothing() -> None:
    sample = step_sample()
    query = sample.positions
    on, off = ForkHMM(labels=True).fit(sample), ForkHMM(labels=False).fit(sample)
    np.testing.assert_array_equal(on.mean(query), off.mean(query))
    np.testing.assert_array_equal(on.sd(query), off.sd(query))


def test_uneven_weights_are_worth_fewer_draws() -> None:
    even = sample_from_counts(np.arange(2), np.full((2, 2), 4))
    weight = np.where(np.arange(16) % 2, 0.1, 1.9)
    order = np.lexsort((even.outcome, even.place))
    even = replace(even, outcome=even.outcome[order])
    uneven = replace(even, weight=weight)
    np.testing.assert_allclose(uneven.counts, even.counts)
    fits = [ForkHMM().fit(sample) for sample in (even, uneven)]
    assert np.all(fits[1].sd([0, 1]) > fits[0].sd([0, 1]))
    np.testing.assert_allclose(fits[1].mean([0, 1])[:, 0], 0.5, atol=0.05)


def test_the_middle_lies_between_mean_and_median() -> None:
    sample = sample_from_counts(np.arange(4), np.tile([3, 0], (4, 1)))
    points = {
        point: ForkHMM(point=point).fit(sample).mean(sample.positions)
        for point in ("mean", "middle", "median")
    }
    assert points["mean"][0, 0] < points["middle"][0, 0] < points["median"][0, 0]
    np.testing.assert_allclose(points["middle"], (points["mean"] + points["median"]) / 2)


def test_a_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ReforkError, match=r"point: 'mode'.*median"):
        ForkHMM(point="mode")


def test_the_same_fit_twice_is_equal() -> None:
    sample = step_sample()
    one, other = ForkHMM().fit(sample), ForkHMM().fit(sample)
    np.testing.assert_array_equal(one.mean(sample.positions), other.mean(sample.positions))
    np.testing.assert_array_equal(one.draws(5, 1), other.draws(5, 1))
    assert one.chosen == other.chosen


def test_between_positions_the_curve_moves_with_information() -> None:
    probability, dropped = np.ones(11), np.zeros(11)
    probability[7] = 0.2  # the one token at which something is decided
    sample = sample_from_counts(
        [0, 10], np.array([[30, 0], [0, 30]]), base_probability=probability, dropped=dropped
    )
    fit = ForkHMM(labels=False).fit(sample)
    curve = fit.mean(np.arange(11))[:, 0]
    share = (curve - curve[0]) / (curve[-1] - curve[0])
    np.testing.assert_allclose(share, fit.time / fit.time[-1])
    assert np.diff(share).argmax() == 7
    np.testing.assert_array_equal(fit.mean([-3, 99]), fit.mean([0, 10]))


@given(
    arrays(np.int64, (6, 3), elements=st.integers(0, 8)).filter(lambda counts: counts.any()),
    st.lists(st.floats(0.01, 1), min_size=6, max_size=6) | st.none(),
)
@settings(max_examples=25, deadline=None)
def test_curves_are_distributions(counts: NDArray[np.int64], probability: Floats | None) -> None:
    known = None if probability is None else np.array(probability)
    sample = sample_from_counts(np.arange(6), counts, base_probability=known, dropped=np.zeros(6))
    fit = ForkHMM().fit(sample)
    for curve in (fit.mean(np.arange(8)), fit.draws(3, 0)):
        np.testing.assert_allclose(curve.sum(axis=-1), 1)
        assert 0 <= curve.min() <= curve.max() <= 1 + 1e-12
    assert np.all((fit.sd(np.arange(8)) >= 0) & np.isfinite(fit.sd(np.arange(8))))

"""Cross-validation over draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from refork.stats.curves.estimator import Chosen
from refork.stats.curves.full import FALLBACK, Full
from refork.stats.curves.kernel import Kernel
from refork.stats.curves.raw import Raw
from refork.stats.curves.sample import CurveSample, sample_from_counts
from refork.stats.curves.segment import Segment
from refork.stats.curves.tuning import Contest, Fold, held_out_score, split, tune


def flat(draws: int, positions: int = 20) -> CurveSample:
    random = np.random.default_rng(0)
    counts = random.multinomial(draws, [0.5, 0.3, 0.2], size=positions)
    return sample_from_counts(np.arange(positions), counts)


@dataclass
class Constant:
    """Candidates whose scores are given."""

    values: Sequence[float]
    candidates: ClassVar[Sequence[Chosen]] = ({"x": 0.0}, {"x": 1.0}, {"x": 2.0})

    def scores(self, fold: Fold) -> NDArray[np.float64]:
        return np.array(self.values)


def test_first_best_and_scores_of_all_folds() -> None:
    tuning = tune(Constant([1.0, 3.0, 3.0]), flat(10))
    assert tuning.best == 1
    np.testing.assert_array_equal(tuning.scores, np.tile([[1.0], [3.0], [3.0]], 5))
    assert tuning.selection == "5-fold cross-validation"


def test_folds_hold_out_every_draw_once() -> None:
    sample = flat(13)
    folds = list(split(sample, 5))
    np.testing.assert_allclose(sum(fold.held_out for fold in folds), sample.counts)
    for fold in folds:
        np.testing.assert_allclose(fold.held_out + fold.training.counts, sample.counts)


def test_weighted_draws_keep_the_number_of_draws_in_training() -> None:
    """Two branches of 10 draws, the base token's with probability 0.8."""
    branch = np.tile(np.repeat([0, 1], 10), 2)
    sample = CurveSample(
        positions=np.arange(2),
        place=np.repeat([0, 1], 20),
        branch=branch,
        outcome=branch,
        weight=np.where(branch == 0, 1.6, 0.4),
        categories=2,
        base_probability=np.array([0.8, 0.8]),
        dropped=np.zeros(2),
    )
    for fold in split(sample, 5):
        np.testing.assert_allclose(fold.training.counts, [[12.8, 3.2]] * 2)
        np.testing.assert_allclose(fold.held_out, [[3.2, 0.8]] * 2)


def test_fewer_draws_than_folds() -> None:
    tuning = tune(Constant([0.0, 1.0, 0.0]), flat(3))
    assert tuning.scores.shape == (3, 3)
    expected = "3-fold cross-validation, not 5-fold: no position has more than 3 draws"
    assert tuning.selection == expected


@pytest.mark.parametrize("estimator", [Full(), Kernel(), Segment(), Full(penalty=4)])
def test_one_draw_a_position_leaves_the_fixed_choice(estimator: Full | Kernel | Segment) -> None:
    fit = estimator.fit(flat(1))
    assert fit.chosen["selection"] == "fixed: one draw a position cannot be cross-validated"
    given = getattr(estimator, "penalty", None)
    assert fit.chosen.get("penalty", FALLBACK[0]) == (FALLBACK[0] if given is None else given)
    assert fit.chosen.get("bandwidth", FALLBACK[1]) == FALLBACK[1]
    assert fit.tuning is not None
    assert fit.tuning.best is None
    np.testing.assert_allclose(fit.mean(np.arange(20)).sum(axis=1), 1)


def test_positions_may_differ_in_draws() -> None:
    random = np.random.default_rng(1)
    draws = random.integers(0, 12, size=30)
    draws[4] = 12
    counts = np.stack([random.multinomial(n, [0.7, 0.3]) for n in draws])
    fit = Full().fit(sample_from_counts(np.arange(30), counts))
    assert fit.tuning is not None
    assert np.isfinite(fit.tuning.scores).all()
    np.testing.assert_allclose(fit.mean(np.arange(30))[:, 0], 0.7, atol=0.15)


def test_a_held_out_score_is_the_log_likelihood_of_the_draws() -> None:
    sample = flat(10)
    fold = next(split(sample, 5))
    mean = Kernel(bandwidth=8).fit(fold.training).mean(sample.positions)
    expected = np.sum(fold.held_out * np.log(mean))
    assert held_out_score(Kernel(bandwidth=8), fold) == pytest.approx(expected)


def test_the_estimator_itself_can_be_chosen() -> None:
    """On a flat curve a wide kernel is best; shares hold impossible what was not drawn."""
    contest = Contest([Raw(), Kernel(bandwidth=2), Kernel(bandwidth=64)])
    tuning = tune(contest, flat(10))
    assert tuning.best == 2
    assert [one["estimator"] for one in tuning.candidates] == ["raw", "kernel", "kernel"]
    assert np.isneginf(tuning.scores[0]).any()

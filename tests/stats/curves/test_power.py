"""What a few recorded draws are worth, judged by the others."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.stores import made_store
from refork.stats.curves.estimator import ESTIMATORS
from refork.stats.curves.power import PowerQuestion, Setting, measure, power_question, settings


@pytest.fixture(scope="module")
def question() -> PowerQuestion:
    return power_question(made_store(positions=30, jump=15).recording, (1, 0), 40)


def test_strides_are_crossed_with_samples() -> None:
    assert settings([1, 4], [5, 30]) == [
        Setting(1, 5),
        Setting(1, 30),
        Setting(4, 5),
        Setting(4, 30),
    ]


def test_raw_errors_by_hand(question: PowerQuestion) -> None:
    found = measure(question, ESTIMATORS["raw"](), Setting(1, 10), 2).scores
    counts = question.draws.counts()
    expected = []
    for first in (0, 10):
        block = question.draws.counts(first, 10)
        expected.append(np.abs(block / 10 - (counts - block) / 30).sum(axis=1).mean() / 2)
    assert found["tvd"] == pytest.approx(np.mean(expected))
    assert found["seconds"] >= 0


def test_positions_between_observed_ones_are_scored(question: PowerQuestion) -> None:
    found = measure(question, ESTIMATORS["raw"](), Setting(29, 10), 1).scores
    block = question.draws.counts(0, 10)
    ends = block[[0, 29]] / 10
    line = ends[0] + (ends[1] - ends[0]) * (np.arange(30) / 29)[:, None]
    others = (question.draws.counts() - block) / 30
    assert found["tvd"] == pytest.approx(np.abs(line - others).sum(axis=1).mean() / 2)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_no_estimator_sees_the_draws_that_judge_it(name: str, question: PowerQuestion) -> None:
    """Other draws outside the block leave the estimate as it is."""
    sample = question.draws.sample(10, 10)
    shuffled = question.draws.outcome.copy()
    shuffled[:, :10], shuffled[:, 20:] = 0, 1
    other = replace(question.draws, outcome=shuffled)
    estimator = ESTIMATORS[name]()
    one, two = (estimator.fit(each) for each in (sample, other.sample(10, 10)))
    grid = question.draws.positions
    np.testing.assert_array_equal(one.mean(grid), two.mean(grid))


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"raw"}))
def test_smoothing_is_worth_draws(name: str, question: PowerQuestion) -> None:
    raw = measure(question, ESTIMATORS["raw"](), Setting(1, 5), 4).scores
    assert measure(question, ESTIMATORS[name](), Setting(1, 5), 4).scores["tvd"] < raw["tvd"]


def test_how_a_fit_was_chosen_is_kept(question: PowerQuestion) -> None:
    found = measure(question, ESTIMATORS["full"](), Setting(1, 3), 2)
    assert len(found.selections) == 2
    assert set(found.selections) == {
        "3-fold cross-validation, not 5-fold: no position has more than 3 draws"
    }
    assert measure(question, ESTIMATORS["raw"](), Setting(1, 3), 1).selections == ("given",)

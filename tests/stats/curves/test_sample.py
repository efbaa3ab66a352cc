"""Samples of draws: their checks, counts, folds and rare categories."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refork.errors import ReforkError
from refork.stats.curves.sample import CurveSample, sample_from_counts


def made(**changes: Any) -> CurveSample:
    """Five draws at tokens 0 and 2, none at 1."""
    fields: dict[str, Any] = {
        "positions": np.array([0, 1, 2]),
        "place": np.array([0, 0, 0, 2, 2]),
        "branch": np.array([0, 0, 1, 0, 1]),
        "outcome": np.array([0, 1, 1, 2, 2]),
        "weight": np.ones(5),
        "categories": 3,
        "base_probability": np.array([0.6, 1.0, np.nan]),
        "dropped": np.array([0.1, 0.0, np.nan]),
    }
    return CurveSample(**fields | changes)


def test_counts_and_draws() -> None:
    sample = made()
    assert sample.counts.tolist() == [[1, 2, 0], [0, 0, 0], [0, 0, 2]]
    assert sample.draws.tolist() == [3, 0, 2]
    assert sample.observed.tolist() == [0, 2]
    assert sample.branch_counts(of_base=True).tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert sample.branch_counts(of_base=False).tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1]]


def test_draws_of_each_branch_count_by_their_weight() -> None:
    sample = made(weight=np.array([0.9, 0.9, 1.2, 1.5, 0.5]))
    np.testing.assert_allclose(sample.counts, np.array([[0.9, 2.1, 0], [0, 0, 0], [0, 0, 2.0]]))
    kept = sample.kept(np.array([True, False, True, True, False]))
    np.testing.assert_allclose(kept.weight, [2 * 0.9 / 2.1, 2 * 1.2 / 2.1, 1])
    unscaled = sample.kept(np.array([True, False, True, True, False]), rescaled=False)
    assert unscaled.weight.tolist() == [0.9, 1.2, 1.5]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"positions": np.array([0, 2, 1])}, "positions out of order: 1 stands behind 2"),
    ({"positions": np.array([0, 1, 1])}, "positions out of order: 1 stands behind 1"),
    ({"positions": np.array([-1, 1, 2])}, "positions: -1; the first token is 0"),
    ({"positions": np.array([0.0, 1.0, 2.0])}, "positions: a row of whole numbers is wanted"),
    ({"place": np.array([0, 2, 0, 2, 2])}, "not in the order of their positions"),
    ({"place": np.array([0, 0, 0, 2, 3])}, "place: 3 is out of range; there are 3 positions"),
    ({"outcome": np.array([0, 1, 1, 2, 3])}, "outcome: 3 is out of range; there are 3 categories"),
    ({"branch": np.array([0, 0, -1, 0, 1])}, "branch: -1 is out of range"),
    ({"weight": np.array([1, 1, 0.5, 1, 1])}, "of position 0 add to 2.5, not to its 3 draws"),
    ({"weight": np.array([1, 1, np.nan, 1, 1])}, "weight: nan; finite and not negative is wanted"),
    ({"weight": np.ones(4)}, r"weight: shape (4,); one a draw is wanted"),
    ({"base_probability": np.array([0.6, 1.2, 1.0])}, "base_probability of token 1: 1.2"),
    ({"dropped": np.array([0.6, -0.1, 1.0])}, "dropped of token 1: -0.1; a probability is from 0"),
    ({"dropped": np.array([0.6])}, "a value for each of the 3 tokens"),
    ({"categories": 0}, "categories: 0; one at least is wanted"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_fault_is_said_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ReforkError, match=re.escape(words)):
        made(**changes)


def test_an_empty_question_and_a_single_position_are_no_curve() -> None:
    nothing = np.array([], dtype=np.int64)
    fields = {"place": nothing, "branch": nothing, "outcome": nothing, "weight": np.empty(0)}
    with pytest.raises(ReforkError, match="an empty question has no curve"):
        made(**fields)
    with pytest.raises(ReforkError, match="positions: 1; a curve needs two at least"):
        sample_from_counts([3], np.array([[1, 2]]))
    with pytest.raises(ReforkError, match="no draw is left"):
        made().kept(np.zeros(5, dtype=bool))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1, 2], [3, -1]], "counts: -1 of category 1 in row 1 is negative"),
        ([[1, 0.5], [3, 1]], "counts: 0.5 of category 1 in row 0 is not whole"),
        ([[1, np.nan], [3, 1]], "counts: nan of category 1 in row 0 is not finite"),
        ([[1, 2]], "there are 2 positions"),
        ([1, 2], "a row a position"),
    ],
)
def test_wrong_counts_are_said_in_words(counts: Any, words: str) -> None:
    with pytest.raises(ReforkError, match=words):
        sample_from_counts([0, 1], np.array(counts))


def test_counts_become_draws_and_counts_again() -> None:
    counts = np.random.default_rng(0).integers(0, 9, (6, 4))
    sample = sample_from_counts([0, 1, 4, 5, 8, 9], counts)
    assert sample.counts.tolist() == counts.tolist()
    assert np.isnan(sample.base_probability).all()
    assert len(sample.dropped) == 10


def test_shuffled_counts_deal_every_category_over_the_folds() -> None:
    sample = sample_from_counts([0, 1], np.array([[50, 50], [50, 50]]))
    ones = np.bincount(sample.folds(2)[sample.outcome == 1], minlength=2)
    assert ones.sum() == 100
    assert ones.min() > 30


BRANCHES = st.lists(st.integers(0, 3), min_size=1, max_size=40)


@given(first=BRANCHES, second=BRANCHES, folds=st.integers(2, 7), by_branch=st.booleans())
def test_folds_are_even_and_contiguous(
    first: list[int], second: list[int], folds: int, by_branch: bool
) -> None:
    place = np.repeat([0, 1], [len(first), len(second)])
    branch = np.array(first + second)
    sample = CurveSample(
        positions=np.array([0, 1]),
        place=place,
        branch=branch,
        outcome=np.zeros(len(place), dtype=np.int64),
        weight=np.ones(len(place)),
        categories=1,
        base_probability=np.ones(2),
        dropped=np.zeros(2),
    )
    fold = sample.folds(folds, by_branch=by_branch)
    for one in (0, 1):
        sizes = np.bincount(fold[place == one], minlength=folds)
        assert np.ptp(sizes) <= 1
        for group in np.unique(branch) if by_branch else [None]:
            mine = fold[(place == one) & ((branch == group) if by_branch else True)]
            assert np.all(np.diff(mine) >= 0)
            assert np.ptp(np.bincount(mine, minlength=folds)) <= 1


def test_one_fold_is_none() -> None:
    with pytest.raises(ReforkError, match="two at least"):
        made().folds(1)


def test_rare_categories_become_one() -> None:
    counts = np.array([[500, 5, 0, 0, 495], [500, 0, 1, 0, 499]])
    collapsed = sample_from_counts([0, 1], counts).collapsed()
    assert collapsed.sample.counts.tolist() == [[500, 495, 5], [500, 499, 1]]
    curve = np.array([[0.5, 0.488, 0.012]])
    np.testing.assert_allclose(collapsed.expand(curve), [[0.5, 0.01, 0.002, 0, 0.488]])


def test_rare_categories_join_other() -> None:
    counts = np.array([[90, 0, 0, 10], [80, 0, 0, 20]])
    collapsed = sample_from_counts([0, 1], counts).collapsed(other=3)
    assert collapsed.sample.counts.tolist() == [[90, 10], [80, 20]]
    np.testing.assert_allclose(collapsed.expand(np.array([[0.7, 0.3]])), [[0.7, 0, 0, 0.3]])


def test_what_was_never_drawn_is_shared_evenly() -> None:
    collapsed = sample_from_counts([0, 1], np.array([[5, 0, 0], [5, 0, 0]])).collapsed()
    np.testing.assert_allclose(collapsed.expand(np.array([[0.8, 0.2]])), [[0.8, 0.1, 0.1]])


def test_without_rare_categories_nothing_changes() -> None:
    sample = made()
    collapsed = sample.collapsed(other=0)
    assert collapsed.sample.counts.tolist() == sample.counts.tolist()
    assert collapsed.share.tolist() == [1, 1, 1]

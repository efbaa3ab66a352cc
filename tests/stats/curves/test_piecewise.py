"""`kernel`, `segment` and `full` against the formulas written out a second time."""

from collections.abc import Iterator
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from refork.errors import ReforkError
from refork.stats.curves import full, kernel, segment
from refork.stats.curves.full import Full
from refork.stats.curves.kernel import Kernel
from refork.stats.curves.pelt.costs import COSTS
from refork.stats.curves.pelt.detectors import change_points
from refork.stats.curves.sample import CurveSample, sample_from_counts
from refork.stats.curves.segment import Segment

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def drawn(positions: Integers, draws: int, seed: int = 0) -> CurveSample:
    """Draws of a curve of three categories with steps."""
    random = np.random.default_rng(seed)
    steps = random.dirichlet([1.0, 1.0, 1.0], size=len(positions) // 8 + 1)
    curve = np.repeat(steps, 8, axis=0)[: len(positions)]
    counts = np.stack([random.multinomial(draws, share) for share in curve])
    return sample_from_counts(positions, counts)


def alpha(
    at: int, positions: Integers, counts: Floats, begins: list[int], bandwidth: float
) -> Floats:
    """Smoothed counts at one position."""
    edges = [0, *begins, len(positions)]
    number = sum(at >= (positions[b - 1] + positions[b]) / 2 for b in begins)
    own = slice(edges[number], edges[number + 1])
    weight = np.exp(-0.5 * ((positions[own] - at) / bandwidth) ** 2)
    smoothed: Floats = 1 / counts.shape[1] + weight @ counts[own]
    return smoothed


def scores(sample: CurveSample, cost: str, choices: list[tuple[float, float]]) -> Iterator[Floats]:
    """Held-out log-likelihood of every choice, fold by fold."""
    fold = sample.folds(5)
    for held in range(5):
        training = sample.kept(fold != held).counts
        held_out = sample.kept(fold == held).counts
        score = np.zeros(len(choices))
        for number, (penalty, bandwidth) in enumerate(choices):
            begins = []
            if penalty < inf:
                search = COSTS[cost](sample.positions)
                begins = list(change_points(search, training, [penalty], "ruptures")[0])
            for at, row in zip(sample.positions, held_out, strict=True):
                smoothed = alpha(int(at), sample.positions, training, begins, bandwidth)
                score[number] += row @ np.log(smoothed / smoothed.sum())
        yield score


@pytest.mark.parametrize("draws", [5, 12])
@pytest.mark.parametrize(
    ("estimator", "cost", "choices"),
    [
        (Full(), "multinomial", [(p, h) for p in full.PENALTIES for h in kernel.BANDWIDTHS]),
        (Full(cost="l2", penalty=8), "l2", [(8, h) for h in kernel.BANDWIDTHS]),
        (Full(cost="logit_linear", bandwidth=4), "logit_linear", [(p, 4) for p in full.PENALTIES]),
        (Kernel(), "", [(inf, h) for h in kernel.BANDWIDTHS]),
        (Segment(), "multinomial", [(p, inf) for p in segment.PENALTIES]),
    ],
)
def test_cross_validation_by_hand(
    estimator: Full | Kernel | Segment,
    cost: str,
    choices: list[tuple[float, float]],
    draws: int,
) -> None:
    sample = drawn(np.cumsum(np.random.default_rng(1).integers(1, 5, size=40)), draws)
    fit = estimator.fit(sample)
    assert fit.tuning is not None
    expected = np.stack(list(scores(sample, cost, choices)), axis=1)
    np.testing.assert_allclose(fit.tuning.scores, expected, atol=1e-8)
    penalty, bandwidth = choices[int(np.argmax(expected.sum(axis=1)))]
    assert fit.chosen.get("penalty", inf) == penalty
    assert fit.chosen.get("bandwidth", inf) == bandwidth
    assert fit.chosen["selection"] == "5-fold cross-validation"
    assert [dict(one) for one in fit.tuning.candidates][fit.tuning.best or 0].items() <= dict(
        fit.chosen
    ).items()


@pytest.mark.parametrize("bandwidth", [2.0, 32.0, inf])
@pytest.mark.parametrize("penalty", [3.0, inf])
def test_curves_by_hand(penalty: float, bandwidth: float) -> None:
    sample = drawn(np.arange(40) * 3 + 1, 9)
    fit = Full(penalty=penalty, bandwidth=bandwidth).fit(sample)
    begins = []
    if penalty < inf:
        begins = list(change_points(COSTS["multinomial"](), sample.counts, [penalty])[0])
        assert len(begins) > 1
        assert fit.change_points is not None
        assert list(fit.change_points) == list(sample.positions[begins])
    else:
        assert fit.change_points is None
    at = np.arange(130)
    smoothed = [alpha(int(one), sample.positions, sample.counts, begins, bandwidth) for one in at]
    total = np.sum(smoothed, axis=1, keepdims=True)
    mean = np.array(smoothed) / total
    np.testing.assert_allclose(fit.mean(at), mean, atol=1e-12)
    np.testing.assert_allclose(fit.sd(at), np.sqrt(mean * (1 - mean) / (total + 1)), atol=1e-12)
    assert fit.mean([]).shape == (0, 3)


def test_ablations_of_full_are_the_other_two() -> None:
    sample = drawn(np.arange(60), 10)
    at = np.arange(60)
    plain = Full(penalty=inf).fit(sample)
    np.testing.assert_array_equal(plain.mean(at), Kernel().fit(sample).mean(at))
    pooled = Full(bandwidth=inf, penalty=4).fit(sample)
    np.testing.assert_array_equal(pooled.mean(at), Segment(penalty=4).fit(sample).mean(at))


def test_the_fixed_variant_makes_no_choice() -> None:
    fit = Full(penalty=64, bandwidth=32).fit(drawn(np.arange(30), 5))
    assert fit.tuning is None
    expected = {"cost": "multinomial", "penalty": 64, "bandwidth": 32, "selection": "given"}
    assert fit.chosen == expected


def test_ruptures_gives_the_same_curves() -> None:
    sample = drawn(np.arange(50), 10)
    ours, theirs = Full().fit(sample), Full(detector="ruptures").fit(sample)
    assert ours.chosen == theirs.chosen
    np.testing.assert_array_equal(ours.mean(np.arange(50)), theirs.mean(np.arange(50)))


def test_the_first_of_the_best_wins() -> None:
    """Without a change all penalties that find none score the same."""
    counts = np.tile([6, 4], (30, 1))
    fit = Full().fit(sample_from_counts(np.arange(30), counts))
    assert fit.tuning is not None
    total = fit.tuning.scores.sum(axis=1).reshape(len(full.PENALTIES), -1)
    assert (total[6] == total[-1]).all()
    assert fit.tuning.best == int(np.flatnonzero(total.ravel() == total.max())[0])


@pytest.mark.parametrize(
    ("estimator", "fault"),
    [
        (Full(folds=1), "folds is 1; a cross-validation needs two at least"),
        (Kernel(folds=0), "folds is 0; a cross-validation needs two at least"),
        (Full(penalty=0), "penalty is 0; it must be above 0"),
        (Segment(penalty=np.nan), "penalty is nan; it must be above 0"),
        (Kernel(bandwidth=-1), "bandwidth is -1; it must be above 0"),
        (Full(bandwidth=0), "bandwidth is 0; it must be above 0"),
        (Full(cost="l1"), "cost is 'l1'; allowed: multinomial, l2, logit_linear"),
        (Segment(detector="exact"), "detector is 'exact'; allowed: compiled, ruptures"),
    ],
)
def test_hyper_parameters_that_mean_nothing(estimator: Full | Segment | Kernel, fault: str) -> None:
    with pytest.raises(ReforkError, match=fault):
        estimator.fit(drawn(np.arange(30), 5))

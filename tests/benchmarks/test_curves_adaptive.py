"""Adaptive sampling on the published stores, rows 0 to 39, against a uniform grid."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from refork.data.store import read_store
from refork.stats.curves.adaptive import Need, allot, expected_lengths
from refork.stats.curves.estimator import ESTIMATORS, Estimator
from refork.stats.curves.mixture import MixtureDraws, seed_of
from refork.stats.curves.power import PowerQuestion, power_question
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.scores import score

Counts = Sequence[NDArray[np.int64]]

SHARES = {("llama", 5): 0.4, ("llama", 30): 0.4, ("deepseek", 5): 0.5, ("deepseek", 30): 0.4}
"""Of the uniform grid's generated tokens, by track and draws a position."""
ROUNDS = 3
STRIDE = 4
"""Of the first round's grid, one draw a position."""
MOST = 150


def recorded(folder: Path) -> list[PowerQuestion]:
    """Return the recorded questions of a track."""
    paths = sorted(folder.glob("*.json.gz"))
    assert len(paths) == 40
    stores = [read_store(path) for path in paths]
    return [
        power_question(store.recording, seed_of(store.meta.track, store.meta.row_id), store.s)
        for store in stores
    ]


def first_draws(draws: MixtureDraws, n: NDArray[np.int64]) -> tuple[CurveSample, NDArray[np.int64]]:
    """Take the first n draws of every position; give their lengths too."""
    place = np.repeat(np.arange(len(n)), n)
    column = np.arange(len(place)) - np.repeat(np.cumsum(n) - n, n)
    sample = CurveSample(
        positions=draws.positions,
        place=place,
        branch=draws.branch[place, column],
        outcome=draws.outcome[place, column],
        weight=np.ones(len(place)),
        categories=draws.categories,
        base_probability=draws.base_probability,
        dropped=draws.dropped,
    )
    return sample, draws.length[place, column]


def spent(questions: Sequence[PowerQuestion], counts: Counts) -> int:
    """Add up the generated tokens."""
    pairs = zip(questions, counts, strict=True)
    return sum(int(first_draws(question.draws, n)[1].sum()) for question, n in pairs)


def errors(
    questions: Sequence[PowerQuestion], counts: Counts, estimator: Estimator
) -> NDArray[np.float64]:
    """TVD of every question to the histogram of the draws that were not taken."""
    found = []
    for question, n in zip(questions, counts, strict=True):
        sample, _ = first_draws(question.draws, n)
        others = question.draws.counts() - sample.counts.astype(np.int64)
        estimate = estimator.fit(sample).mean(question.draws.positions)
        found.append(score(estimate, others, question.regions)["tvd"])
    return np.array(found)


def need(question: PowerQuestion, n: NDArray[np.int64], estimator: Estimator) -> Need:
    """Look at the curve as it stands."""
    draws = question.draws
    sample, length = first_draws(draws, n)
    sd = estimator.fit(sample).sd(draws.positions)
    assert sd is not None
    total = np.bincount(sample.place, length, minlength=len(n))[sample.observed]
    mean = np.asarray(total / sample.draws[sample.observed], np.float64)
    guess = expected_lengths(draws.positions, sample.observed, mean)
    return Need(sd.sum(axis=1) / 2, guess, n, draws.drawn)


def adaptive(
    questions: Sequence[PowerQuestion], budget: float, estimator: Estimator
) -> list[NDArray[np.int64]]:
    """Spend a budget: a coarse grid first, then in rounds where it is worth most."""
    counts = []
    for question in questions:
        n = np.zeros(len(question.draws.positions), np.int64)
        n[np.flatnonzero(question.draws.drawn)[::STRIDE]] = 1
        counts.append(n)
    for number in range(ROUNDS):
        left = (budget - spent(questions, counts)) / (ROUNDS - number)
        needs = [need(one, n, estimator) for one, n in zip(questions, counts, strict=True)]
        added = allot(needs, left, MOST, seed=number)
        counts = [n + further for n, further in zip(counts, added, strict=True)]
    return counts


@pytest.mark.parametrize(("track", "samples"), SHARES)
def test_a_part_of_the_tokens_is_as_good_as_the_published_method(
    track: str, samples: int, shared: Path
) -> None:
    questions = recorded(shared / "data" / "forking-fast" / track)
    forkhmm, full = ESTIMATORS["forkhmm"](), ESTIMATORS["full"]()
    uniform = [np.where(question.draws.drawn, samples, 0) for question in questions]
    budget = SHARES[track, samples] * spent(questions, uniform)
    ours = adaptive(questions, budget, forkhmm)
    difference = errors(questions, ours, forkhmm) - errors(questions, uniform, full)
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    share = spent(questions, ours) / spent(questions, uniform)
    print(
        f"{track}, S = {samples}: {share:.3f} of the tokens, {difference.mean():+.4f} ± {error:.4f}"
    )
    assert share <= 1.02 * SHARES[track, samples]
    assert difference.mean() <= 0

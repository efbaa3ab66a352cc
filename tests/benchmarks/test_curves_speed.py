"""Milliseconds a question of `full` and ForkHMM without labels, and how ForkHMM's grow.

Processor time, so that a busy machine changes little; the least of a few rounds.
"""

from pathlib import Path
from time import process_time

import numpy as np
import pytest

from refork.data.store import read_store
from refork.stats.curves.estimator import ESTIMATORS, Estimator
from refork.stats.curves.mixture import seed_of
from refork.stats.curves.sample import CurveSample

DRAWS = 30
MOST_FORKHMM, MOST_FULL = 0.005, 0.300  # seconds
FASTER_THAN_PUBLISHED = 25
LINEAR = 1.5  # times as long as in proportion to the positions


def seconds(estimator: Estimator, sample: CurveSample, rounds: int = 5) -> float:
    """Least processor time of a fit and its curve at every position."""
    taken = []
    for _ in range(rounds):
        start = process_time()
        estimator.fit(sample).mean(sample.positions)
        taken.append(process_time() - start)
    return min(taken)


@pytest.fixture(scope="module")
def recorded(shared: Path) -> list[CurveSample]:
    """Ten recorded questions, every token, 30 draws; the estimators are compiled."""
    samples = []
    for row in range(10):
        store = read_store(shared / "data" / "forking-fast" / "llama" / f"row{row:03d}.json.gz")
        samples.append(store.recording.draw(seed_of("llama", row)).sample(0, DRAWS))
    for estimator in (ESTIMATORS["full"](), ESTIMATORS["forkhmm"](labels=False)):
        seconds(estimator, samples[0], rounds=1)
    return samples


def mean_seconds(estimator: Estimator, samples: list[CurveSample], rounds: int = 5) -> float:
    """Mean over questions."""
    return float(np.mean([seconds(estimator, sample, rounds) for sample in samples]))


def test_a_question_of_every_token(recorded: list[CurveSample]) -> None:
    forkhmm = mean_seconds(ESTIMATORS["forkhmm"](labels=False), recorded)
    full = mean_seconds(ESTIMATORS["full"](), recorded)
    print(f"forkhmm {1e3 * forkhmm:.1f} ms, full {1e3 * full:.1f} ms: {full / forkhmm:.1f} times")
    assert forkhmm <= MOST_FORKHMM
    assert full <= MOST_FULL
    assert forkhmm < full


@pytest.mark.slow
def test_forkhmm_beside_the_published_way(recorded: list[CurveSample]) -> None:
    """The published method looks for change points by ruptures, with a cost written in Python."""
    forkhmm = mean_seconds(ESTIMATORS["forkhmm"](labels=False), recorded)
    published = mean_seconds(ESTIMATORS["full"](detector="ruptures"), recorded, rounds=1)
    print(f"forkhmm {1e3 * forkhmm:.1f} ms, full by ruptures {published:.1f} s")
    assert published >= FASTER_THAN_PUBLISHED * forkhmm


def long_question(positions: int) -> CurveSample:
    """Every token sampled, the base token sure at most of them; the curve steps now and then."""
    random = np.random.default_rng(0)
    share = np.repeat(random.dirichlet(np.ones(4), positions // 50 + 1), 50, axis=0)[:positions]
    outcome = np.concatenate([random.choice(4, DRAWS, p=one) for one in share])
    base = np.where(random.random(positions) < 0.6, 1.0, random.uniform(0.4, 1, positions))
    return CurveSample(
        positions=np.arange(positions),
        place=np.repeat(np.arange(positions), DRAWS),
        branch=np.zeros(positions * DRAWS, dtype=np.int64),
        outcome=outcome,
        weight=np.ones(positions * DRAWS),
        categories=4,
        base_probability=base,
        dropped=np.zeros(positions),
    )


def test_forkhmm_grows_no_worse_than_linearly() -> None:
    estimator = ESTIMATORS["forkhmm"](labels=False)
    seconds(estimator, long_question(20), rounds=1)
    short, long = (seconds(estimator, long_question(positions)) for positions in (400, 4000))
    print(f"forkhmm: {1e3 * short:.1f} ms at 400 positions, {1e3 * long:.1f} ms at 4000")
    assert long <= LINEAR * 10 * short

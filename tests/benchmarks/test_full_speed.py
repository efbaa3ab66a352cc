"""`full` with cross-validation: milliseconds a question, and how they grow with positions."""

from time import process_time

import numpy as np
import pytest

from refork.stats.curves.full import Full
from refork.stats.curves.sample import CurveSample, sample_from_counts

DRAWS, CATEGORIES = 30, 5
MOST_SECONDS = 0.3


def question(positions: int) -> CurveSample:
    """Every token sampled; logits drift, and step every 50 tokens."""
    random = np.random.default_rng(0)
    steps = random.normal(0, 1.5, (positions // 50 + 1, CATEGORIES))
    logits = np.repeat(steps, 50, axis=0)[:positions]
    logits += np.cumsum(random.normal(0, 0.05, (positions, CATEGORIES)), axis=0)
    curve = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    counts = np.stack([random.multinomial(DRAWS, share) for share in curve])
    return sample_from_counts(np.arange(positions), counts)


def seconds(positions: int, rounds: int = 3) -> float:
    """Least processor time of a fit and its curve."""
    sample = question(positions)
    taken = []
    for _ in range(rounds):
        start = process_time()
        Full().fit(sample).mean(sample.positions)
        taken.append(process_time() - start)
    return min(taken)


@pytest.mark.slow
def test_a_question_of_400_tokens_and_one_of_4000() -> None:
    Full().fit(question(20))  # compile
    short, long = seconds(400), seconds(4000)
    print(f"full: {1000 * short:.0f} ms at 400 positions, {1000 * long:.0f} ms at 4000")
    assert short <= MOST_SECONDS
    assert long <= 100 * short

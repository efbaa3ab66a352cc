"""Coverage of ForkHMM's intervals on curves of generators that are not its own prior.

Intervals are of each category at each position, from joint draws; standard errors are by question,
for positions of one curve are not independent.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from refork.stats.curves.forkhmm import ForkHMM
from refork.stats.curves.forks import intervals
from refork.stats.curves.sample import CurveSample

Floats = NDArray[np.float64]
LEVELS = (0.5, 0.8, 0.9)
TOKENS, CATEGORIES = 200, 4
# Where the base token leads, where the others lead, and the base token's probability.
Curve = tuple[Floats, Floats, Floats]


def steps(random: np.random.Generator) -> Curve:
    """Constant between changes at places of any kind, 2.5 a question on average."""
    places = random.random(TOKENS) < 2.5 / TOKENS
    levels = random.dirichlet(np.ones(CATEGORIES), int(places.sum()) + 1)
    curve = levels[places.cumsum()]
    return curve, curve, np.full(TOKENS, np.nan)


def drift(random: np.random.Generator) -> Curve:
    """A random walk of the logits."""
    start, moves = random.normal(0, 1.5, CATEGORIES), random.normal(0, 0.06, (TOKENS, CATEGORIES))
    curve = softmax(start + moves.cumsum(axis=0))
    return curve, curve, np.full(TOKENS, np.nan)


def branching(random: np.random.Generator) -> Curve:
    """A base path from its end: the other branches lead nearly as the base token, or elsewhere."""
    base, other = np.empty((TOKENS, CATEGORIES)), np.empty((TOKENS, CATEGORIES))
    probability = np.where(random.random(TOKENS) < 0.3, random.beta(5, 1.5, TOKENS), 1.0)
    leads = random.dirichlet(np.full(CATEGORIES, 0.3))
    for token in range(TOKENS)[::-1]:
        base[token] = leads
        other[token] = softmax(np.log(leads + 1e-3) + random.normal(0, 0.3, CATEGORIES))
        if random.random() < 0.12:
            other[token] = random.dirichlet(np.full(CATEGORIES, 0.5))
        leads = mixture(base[token], other[token], probability[token])
    return base, other, probability


GENERATORS: dict[str, Callable[[np.random.Generator], Curve]] = {
    "steps": steps,
    "drift": drift,
    "branching": branching,
}


def softmax(logits: Floats) -> Floats:
    """Normalise along the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def mixture(base: Floats, other: Floats, probability: float | Floats) -> Floats:
    """o_t = p s + (1 − p) r."""
    return np.asarray(probability * base + (1 - probability) * other)


def drawn(curve: Curve, draws: int, random: np.random.Generator) -> CurveSample:
    """Draw from the mixture at every token, branch first; the base token's where p is unknown."""
    base, other, probability = curve
    place = np.repeat(np.arange(TOKENS), draws)
    branch = (random.random(len(place)) > np.nan_to_num(probability, nan=1.0)[place]).astype(int)
    leads = np.where(branch[:, None] == 0, base[place], other[place]).cumsum(axis=1)
    outcome = (random.random((len(place), 1)) > leads[:, :-1]).sum(axis=1)
    return CurveSample(
        positions=np.arange(TOKENS),
        place=place,
        branch=branch,
        outcome=outcome,
        weight=np.ones(len(place)),
        categories=CATEGORIES,
        base_probability=probability,
        dropped=np.where(np.isnan(probability), np.nan, 0.0),
    )


def covered(generator: str, draws: int, questions: int) -> Floats:
    """Share of the true probabilities within intervals of each level, [questions, levels]."""
    estimator = ForkHMM()
    shares = np.empty((questions, len(LEVELS)))
    for question in range(questions):
        random = np.random.default_rng([list(GENERATORS).index(generator), question])
        curve = GENERATORS[generator](random)
        truth = mixture(curve[0], curve[1], np.nan_to_num(curve[2], nan=1.0)[:, None])
        fit = estimator.fit(drawn(curve, draws, random))
        joint = fit.draws(400, question)
        for place, level in enumerate(LEVELS):
            low, high = intervals(joint, level)
            shares[question, place] = np.mean((low <= truth) & (truth <= high))
    return shares


def error(shares: Floats) -> Floats:
    """Standard error of the mean over questions."""
    return np.asarray(shares.std(axis=0, ddof=1) / np.sqrt(len(shares)))


@pytest.mark.parametrize("generator", GENERATORS)
def test_intervals_of_thirty_draws_hold_what_they_say(generator: str) -> None:
    shares = covered(generator, 30, 16)
    assert np.all(np.abs(shares.mean(axis=0) - LEVELS) < 0.05 + 3 * error(shares))


@pytest.mark.slow
def test_no_level_is_missed_by_far() -> None:
    for generator in GENERATORS:
        for draws in (5, 30):
            shares = covered(generator, draws, 120)
            cells = zip(shares.mean(axis=0), error(shares), strict=True)
            figures = " | ".join(f"{100 * mean:.1f} ± {100 * se:.1f}" for mean, se in cells)
            print(f"| {generator} | {draws} | {figures} |", flush=True)
            assert np.all(np.abs(shares.mean(axis=0) - LEVELS) < 0.15)

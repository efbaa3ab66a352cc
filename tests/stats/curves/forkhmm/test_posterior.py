"""Joint draws of whole curves beside the marginal posterior."""

import numpy as np
import pytest

from refork.stats.curves.forkhmm import ForkHMM
from refork.stats.curves.forkhmm.posterior import ForkFit
from refork.stats.curves.sample import sample_from_counts

SIZE, DRAWS = 40, 4000


@pytest.fixture(scope="module", params=["unknown", "split"])
def fit(request: pytest.FixtureRequest) -> ForkFit:
    """Three categories, 15 draws a position; `split`: with labels, so that bars are widened."""
    random = np.random.default_rng(0)
    shares = np.where(np.arange(SIZE)[:, None] < 20, [0.5, 0.3, 0.2], [0.3, 0.2, 0.5])
    probability = np.full(SIZE, 0.9) if request.param == "split" else None
    sample = sample_from_counts(
        np.arange(SIZE), random.multinomial(15, shares), base_probability=probability
    )
    return ForkHMM(point="mean").fit(sample)


def test_means_and_deviations_of_joint_draws_are_those_of_the_marginals(fit: ForkFit) -> None:
    drawn, query = fit.draws(DRAWS, 0), np.arange(SIZE)
    mean, sd = fit.mean(query), fit.sd(query)
    # Five standard errors, and what cells of a 64th of the angle round.
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * sd / np.sqrt(DRAWS) + 0.003)
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.12, atol=0.002)


def test_draws_are_those_of_their_seed(fit: ForkFit) -> None:
    drawn = fit.draws(20, 7)
    assert drawn.shape == (20, SIZE, 3)
    np.testing.assert_array_equal(drawn, fit.draws(20, 7))
    assert np.any(drawn != fit.draws(20, 8))


def test_neighbours_of_a_draw_move_together(fit: ForkFit) -> None:
    drawn = fit.draws(DRAWS, 0)[:, :, 0]
    step = np.diff(drawn[:, :10], axis=1).std(axis=0)
    assert np.all(step < drawn[:, :9].std(axis=0))

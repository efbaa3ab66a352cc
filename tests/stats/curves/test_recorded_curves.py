"""`full` on recorded stores: the errors that its authors' method has there (arXiv 2608.19611)."""

from functools import cache

import pytest

from helpers.repository import ROOT
from refork.data.store import read_store
from refork.stats.curves.full import Full
from refork.stats.curves.mixture import Recording, seed_of
from refork.stats.curves.raw import Raw
from refork.stats.curves.reference import jump_regions
from refork.stats.curves.scores import TVD, Scores, average, over_questions, score

STORES = ROOT.parent / "shared" / "data" / "forking-fast"
QUESTIONS, REPLICATES = 40, 2

recorded = pytest.mark.skipif(not STORES.is_dir(), reason="the stores lie outside the repository")


@cache
def recording(track: str, row: int) -> Recording:
    return read_store(STORES / track / f"row{row:03d}.json.gz").recording


def scores(estimator: Full | Raw, track: str, stride: int, draws: int) -> list[Scores]:
    """Score blocks of draws against all the others, a mean a question."""
    found: list[Scores] = []
    for row in range(QUESTIONS):
        one = recording(track, row)
        drawn = one.draw(seed_of(track, row))
        regions = jump_regions(one.positions, one.curve)
        blocks = []
        for first in range(0, REPLICATES * draws, draws):
            mean = estimator.fit(drawn.sample(first, draws, stride)).mean(one.positions)
            blocks.append(score(mean, drawn.counts() - drawn.counts(first, draws), regions))
        found.append(average(blocks))
    return found


@recorded
@pytest.mark.parametrize(
    ("track", "stride", "draws", "raw", "full"),
    [
        ("llama", 1, 5, 0.0959, 0.0277),
        ("llama", 1, 30, 0.0440, 0.0219),
        ("llama", 4, 5, 0.0799, 0.0403),
        ("llama", 4, 30, 0.0382, 0.0260),
        ("deepseek", 1, 5, 0.1530, 0.0719),
    ],
)
def test_distance_to_draws_not_seen(
    track: str, stride: int, draws: int, raw: float, full: float
) -> None:
    for estimator, expected, within in ((Raw(), raw, 0.002), (Full(), full, 0.02)):
        found = over_questions(scores(estimator, track, stride, draws), TVD)
        assert found == pytest.approx(expected, rel=within)

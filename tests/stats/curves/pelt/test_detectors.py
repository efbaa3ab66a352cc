"""Compiled change points equal those of ruptures, and are the best there are by the asked cost."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from ruptures.costs import CostL2
from ruptures.detection import Pelt
from scipy.special import xlogy

from helpers.repository import ROOT
from refork.data.store import read_store
from refork.errors import ReforkError
from refork.stats.curves.mixture import seed_of
from refork.stats.curves.pelt.costs import COSTS, Multinomial
from refork.stats.curves.pelt.detectors import change_points

Floats = NDArray[np.float64]

PENALTIES = [2.0**power for power in range(12)]
STORES = ROOT.parent / "shared" / "data" / "forking-fast"


def cuts(name: str, counts: Floats, penalty: float, detector: str = "compiled") -> list[int]:
    found = change_points(COSTS[name](), counts, [penalty], detector, min_size=1)
    return [int(begin) for begin in found[0]]


@st.composite
def tables(draw: st.DrawFn) -> Floats:
    """Counts of few or many draws, in runs or not, whole or not, some rows without any."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, categories = draw(st.integers(1, 60)), draw(st.integers(1, 5))
    most = draw(st.sampled_from([1, 2, 5, 30]))
    run = draw(st.sampled_from([1, 7, 20]))
    curve = np.repeat(random.dirichlet(np.ones(categories), size=rows), run, axis=0)[:rows]
    draws = random.integers(0, most + 1, size=rows) if draw(st.booleans()) else [most] * rows
    counts = np.stack([random.multinomial(*row) for row in zip(draws, curve, strict=True)])
    scale: float = draw(st.sampled_from([1.0, 0.3, 1 / 7]))
    return counts.astype(np.float64) * scale


@settings(deadline=None, max_examples=150)
@given(
    tables(),
    st.sampled_from(sorted(COSTS)),
    st.integers(1, 6),
    st.floats(0.01, 4) | st.integers(1, 40),
)
def test_equal_to_ruptures(counts: Floats, name: str, min_size: int, penalty: float) -> None:
    penalties = [penalty, *PENALTIES]
    ours = change_points(COSTS[name](), counts, penalties, "compiled", min_size)
    theirs = change_points(COSTS[name](), counts, penalties, "ruptures", min_size)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def recorded(track: str, row: int, stride: int) -> tuple[NDArray[np.int64], Floats]:
    recording = read_store(STORES / track / f"row{row:03d}.json.gz").recording
    sample = recording.draw(seed_of(track, row)).sample(0, 30, stride)
    return sample.positions, sample.counts


@pytest.mark.skipif(not STORES.is_dir(), reason="the stores lie outside the repository")
@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize(
    ("track", "rows", "stride"),
    [
        ("llama", range(0, 40, 2), 4),
        ("deepseek", range(0, 40, 2), 1),
        pytest.param("llama", range(0, 40, 4), 1, marks=pytest.mark.slow),
    ],
)
def test_equal_to_ruptures_on_stores(track: str, rows: range, stride: int, name: str) -> None:
    for row in rows:
        positions, counts = recorded(track, row, stride)
        ours = change_points(COSTS[name](positions), counts, PENALTIES)
        theirs = change_points(COSTS[name](positions), counts, PENALTIES, "ruptures")
        assert [list(one) for one in ours] == [list(other) for other in theirs]


def multinomial(segment: Floats) -> float:
    pooled = segment.sum(axis=0)
    return -float(xlogy(pooled, pooled / pooled.sum()).sum())


def squares(segment: Floats) -> float:
    draws = segment.sum(axis=1, keepdims=True)
    mean = segment.sum(axis=0) / draws.sum()
    return float((draws * (segment / draws - mean) ** 2).sum())


FORMULAS = {"multinomial": multinomial, "l2": squares}


def objective(name: str, counts: Floats, begins: list[int], penalty: float) -> float:
    edges = [0, *begins, len(counts)]
    parts = [FORMULAS[name](counts[a:b]) for a, b in pairwise(edges)]
    return sum(parts) + penalty * len(parts)


def least(name: str, counts: Floats, penalty: float) -> float:
    """Try every segmentation."""
    inner = range(1, len(counts))
    return min(
        objective(name, counts, list(begins), penalty)
        for size in range(len(counts))
        for begins in combinations(inner, size)
    )


@pytest.mark.parametrize("detector", ["compiled", "ruptures"])
@pytest.mark.parametrize("name", FORMULAS)
def test_no_segmentation_is_better(name: str, detector: str) -> None:
    random = np.random.default_rng(5)
    for penalty in (0.5, 1.0, 2.0, 4.0):
        curve = np.repeat(random.dirichlet([0.7] * 3, size=3), 3, axis=0)
        counts = np.stack([random.multinomial(6, share) for share in curve]).astype(np.float64)
        found = cuts(name, counts, penalty, detector)
        best = least(name, counts, penalty)
        assert objective(name, counts, found, penalty) == pytest.approx(best, abs=1e-5)


def rare_and_common_steps() -> Floats:
    """A category that appears at row 10 at all; one that goes from 45 to 60 % at row 20."""
    return np.repeat([[45.0, 55.0, 0.0], [45.0, 50.0, 5.0], [60.0, 35.0, 5.0]], 10, axis=0)


@pytest.mark.parametrize("detector", ["compiled", "ruptures"])
def test_the_cost_in_use_is_the_one_asked_for(detector: str) -> None:
    """The multinomial sees a rare category begin at a penalty at which L2 sees a common one move.

    A search that fell back to L2 would find the same for both.
    """
    counts = rare_and_common_steps()
    found = {name: cuts(name, counts, 10.0, detector) for name in FORMULAS}
    assert found["multinomial"] == [10, 20]
    assert found["l2"] == [20]
    for name, other in (("multinomial", "l2"), ("l2", "multinomial")):
        own, foreign = (objective(name, counts, found[which], 10.0) for which in (name, other))
        assert own < foreign


def test_ruptures_asks_the_cost_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    error = Multinomial.error

    def noted(cost: Multinomial, start: int, end: int) -> float:
        asked.append((start, end))
        return error(cost, start, end)

    monkeypatch.setattr(Multinomial, "error", noted)
    monkeypatch.setattr(CostL2, "error", lambda *_: pytest.fail("L2 was asked"))
    cuts("multinomial", rare_and_common_steps(), 10.0, "ruptures")
    assert {end for _, end in asked} == set(range(1, 31))


def test_a_cost_that_ruptures_would_not_take_is_refused() -> None:
    """What it would do: use its own L2 without a word."""

    class NoCost:
        model = "none"
        min_size = 1

        def fit(self, signal: Floats) -> "NoCost":
            return self

    assert isinstance(Pelt(custom_cost=NoCost(), jump=1).cost, CostL2)
    with pytest.raises(TypeError, match="another cost"):
        change_points(NoCost(), np.ones((5, 2)), [1.0], "ruptures")  # type: ignore[arg-type]


def test_a_drift_in_logits_is_one_line_and_many_steps() -> None:
    share = 1 / (1 + np.exp(-np.linspace(-3, 3, 120)))
    first = np.random.default_rng(6).binomial(50, share)
    counts = np.column_stack([first, 50 - first]).astype(np.float64)
    assert cuts("logit_linear", counts, 10.0) == []
    assert len(cuts("multinomial", counts, 10.0)) > 2


@pytest.mark.parametrize("detector", ["compiled", "ruptures"])
def test_rows_too_few_for_a_cut(detector: str) -> None:
    for rows in (1, 2, 3):
        counts = np.eye(3)[:rows] * 100
        found = change_points(Multinomial(), counts, [1.0, 2.0], detector, min_size=2)
        assert [len(begins) for begins in found] == [0, 0]


def test_what_is_refused() -> None:
    for penalty in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ReforkError, match="penalty"):
            change_points(Multinomial(), np.ones((5, 2)), [1.0, penalty])
    with pytest.raises(ReforkError, match="allowed: compiled, ruptures"):
        change_points(Multinomial(), np.ones((5, 2)), [1.0], "binseg")

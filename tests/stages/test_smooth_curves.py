"""From draws to curves, steps and forks."""

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from helpers.curve_tables import ChainCurve, chain_curve, draw_rows, grid_row, synthetic_chain
from refork.data.schemas import CONTINUATIONS, CURVES, DRAWS, FORKS, GRID, OUTCOMES, STEPS
from refork.data.tuning_record import TuningRecord
from refork.errors import ReforkError
from refork.stages.estimate_curves import estimate_curves
from refork.stages.smooth_curves import Smoothed, smooth_curves

SMOOTHING: dict[str, Any] = {
    "level": 0.8,
    "epsilon": [0.1, 0.2],
    "fork_probability": 0.5,
    "curves_drawn": 400,
    "seed": 1,
}


def smoothed(
    grid: pa.Table, draws: pa.Table, estimator: str = "forkhmm", **changed: Any
) -> Smoothed:
    tuning = TuningRecord(
        estimator=estimator, why="given", how="", folds=5, candidates=[], left_out=[]
    )
    return smooth_curves({"settings": {"smoothing": SMOOTHING | changed}}, grid, draws, tuning)


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> list[ChainCurve]:
    chain = synthetic_chain(tmp_path_factory.mktemp("chain"))
    return [chain_curve(chain, f"q{seed}", draws=20, seed=seed, length=50) for seed in range(8)]


@pytest.fixture(scope="module")
def tables(rollouts: list[ChainCurve]) -> tuple[pa.Table, pa.Table]:
    stage = {"settings": {"curves": {"branches": "mixture"}}}
    draws = [
        estimate_curves(stage, one.grid, one.outcomes, [one.continuations]) for one in rollouts
    ]
    return pa.concat_tables([one.grid for one in rollouts]), pa.concat_tables(draws)


@pytest.fixture(scope="module")
def found(tables: tuple[pa.Table, pa.Table]) -> Smoothed:
    return smoothed(*tables)


def columns(found: Smoothed, rollouts: list[ChainCurve], *names: str) -> list[Any]:
    """Give columns of the curves in the shape of all true curves, behind these [all, labels]."""
    assert found.curves.num_rows == sum(one.curve.size for one in rollouts)
    truth = np.concatenate([one.curve for one in rollouts])
    return [truth, *(found.curves.column(name).to_numpy().reshape(truth.shape) for name in names)]


def same(one: pa.Table, other: pa.Table, *names: str) -> bool:
    """Compare columns but for the last bits, which depend on where arrays lie in memory."""
    pairs = [(one.column(name).to_numpy(), other.column(name).to_numpy()) for name in names]
    return all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in pairs)


def test_curves_are_nearer_to_the_truth_than_the_draws(
    found: Smoothed, rollouts: list[ChainCurve]
) -> None:
    assert found.curves.schema == CURVES
    truth, raw, share, sd = columns(found, rollouts, "raw", "share", "sd")
    error, of_raw = (np.abs(curve - truth).sum(axis=1).mean() / 2 for curve in (share, raw))
    assert error < 0.9 * of_raw  # the chain forks at more than every other token
    assert np.allclose(share.sum(axis=1), 1)
    assert np.allclose(raw.sum(axis=1), 1)
    assert (sd > 0).all()
    assert set(found.curves.column("draws").to_pylist()) == {20}
    assert found.left_out == []


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_cover_the_truth_about_as_often_as_they_say(
    tables: tuple[pa.Table, pa.Table], rollouts: list[ChainCurve], level: float
) -> None:
    truth, low, high, share = columns(
        smoothed(*tables, level=level), rollouts, "low", "high", "share"
    )
    assert ((low <= share + 0.05) & (share - 0.05 <= high)).all()
    assert abs(((low <= truth) & (truth <= high)).mean() - level) < 0.12


def test_steps_over_which_the_truth_moves_are_the_probable_ones(
    found: Smoothed, rollouts: list[ChainCurve]
) -> None:
    assert found.steps.schema == STEPS
    steps = found.steps.to_pandas()
    for epsilon in SMOOTHING["epsilon"]:
        own = steps[steps.epsilon == epsilon]
        moved = np.concatenate(
            [np.abs(np.diff(one.curve, axis=0)).sum(axis=1) / 2 > epsilon for one in rollouts]
        )
        assert len(own) == len(moved)
        assert own.probability[moved].mean() > 2 * own.probability[~moved].mean()
        assert (own.groupby("question_id")["first"].sum() <= 1 + 1e-9).all()
        assert (own["first"] <= own.probability + 1e-9).all()
    assert (steps.next_position == steps.position + 1).all()


def test_forks_of_the_posterior_hold_a_true_one(
    found: Smoothed, rollouts: list[ChainCurve]
) -> None:
    assert found.forks.schema == FORKS
    forks = [row for row in found.forks.to_pylist() if row["source"] == "posterior"]
    assert {row["epsilon"] for row in forks} == set(SMOOTHING["epsilon"])
    curves = {one.grid.column("question_id")[0].as_py(): one for one in rollouts}
    held = []
    for row in forks:
        assert row["first"] < row["last"]
        assert row["probability"] >= 0.5
        one = curves[row["question_id"]]
        start = one.grid.column("position")[0].as_py()
        across = one.curve[row["first"] - start : row["last"] - start + 1]
        held.append((np.abs(np.diff(across, axis=0)).sum(axis=1) / 2 > row["epsilon"]).any())
    assert np.mean(held) > 0.6


def test_the_same_seed_draws_the_same_curves(
    tables: tuple[pa.Table, pa.Table], found: Smoothed
) -> None:
    again, other = smoothed(*tables), smoothed(*tables, seed=2)
    assert again.steps.equals(found.steps)
    assert again.forks.equals(found.forks)
    assert again.curves.column("low").equals(found.curves.column("low"))
    assert not other.steps.equals(found.steps)
    assert same(other.curves, found.curves, "share")


def test_a_rollout_does_not_depend_on_those_beside_it(
    tables: tuple[pa.Table, pa.Table], found: Smoothed
) -> None:
    grid, draws = (table.filter(pc.equal(table.column("question_id"), "q3")) for table in tables)
    alone = smoothed(grid, draws)
    curves, forks = (
        table.filter(pc.equal(table.column("question_id"), "q3"))
        for table in (found.curves, found.forks)
    )
    assert alone.forks.equals(forks)
    assert same(alone.curves, curves, "share", "sd", "low", "high")


@pytest.mark.parametrize("estimator", ["raw", "full"])
def test_without_joint_draws_there_are_no_intervals_and_no_probabilities(
    tables: tuple[pa.Table, pa.Table], found: Smoothed, estimator: str
) -> None:
    plain = smoothed(*tables, estimator)
    assert plain.curves.column("low").null_count == plain.curves.num_rows
    assert plain.curves.column("sd").null_count == (
        plain.curves.num_rows if estimator == "raw" else 0
    )
    assert plain.steps.num_rows == found.steps.num_rows
    assert plain.steps.column("probability").null_count == plain.steps.num_rows
    assert set(plain.forks.column("source").to_pylist()) == {"change_point"}
    of_full = [row for row in found.forks.to_pylist() if row["source"] == "change_point"]
    assert plain.forks.to_pylist() == of_full


def stepped(*, skip: bool) -> tuple[pa.Table, pa.Table]:
    """Make a curve that moves from A to B between tokens 9 and 10; 10 and 11 may be skipped."""
    grid, draws = [], []
    for token in range(20):
        key = {"question_id": "a", "rollout": 2, "position": 30 + token}
        skipped = skip and token in (10, 11)
        shares = [1.0] if token in (10, 11) else [0.8, 0.2]
        grid.append(grid_row(key, [1, 2][: len(shares)], shares, drawn=not skipped))
        for number in range(0 if skipped else 30):
            outcome = "other" if number == 29 else "B" if token >= 10 else "A"
            one = {"branch": 0, "draw": number, "outcome": outcome, "weight": 1.0, "length": 1}
            draws.append(key | one)
    return pa.Table.from_pylist(grid, GRID), pa.Table.from_pylist(draws, DRAWS)


@pytest.mark.parametrize("skip", [False, True])
def test_a_change_point_is_in_the_step_over_which_the_curve_moves(skip: bool) -> None:
    found = smoothed(*stepped(skip=skip), "segment:penalty=16")
    (fork,) = found.forks.to_pylist()
    assert fork["distance"] == pytest.approx(0.96, abs=0.02)
    del fork["distance"]
    assert fork == {
        "question_id": "a",
        "rollout": 2,
        "source": "change_point",
        "epsilon": None,
        "first": 39,
        "last": 40,
        "probability": None,
    }


def test_positions_without_draws_have_no_raw_share() -> None:
    rows = smoothed(*stepped(skip=True)).curves.to_pylist()
    assert [row["outcome"] for row in rows[:3]] == ["A", "B", "other"]
    assert {row["position"] for row in rows if row["raw"] is None} == {40, 41}
    assert {row["position"] for row in rows if row["draws"] == 0} == {40, 41}
    assert {row["draws"] for row in rows} == {0, 30}


def test_rare_outcomes_keep_their_own_column() -> None:
    grid, draws = stepped(skip=False)
    many = [
        draws.set_column(
            draws.schema.get_field_index("draw"),
            "draw",
            pc.add(draws.column("draw"), 30 * block).cast(pa.int32()),
        )
        for block in range(5)
    ]
    rows = pa.concat_tables(many).to_pylist()
    next(row for row in rows if row["outcome"] == "other")["outcome"] = "rare"
    found = smoothed(grid, pa.Table.from_pylist(rows, DRAWS))
    shares = found.curves.column("share").to_numpy().reshape(20, 4)
    assert found.curves.column("outcome").to_pylist()[:4] == ["A", "B", "rare", "other"]
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.allclose(shares[:, 2] * 99, shares[:, 3])  # 1 and 99 draws of all that were merged


def test_draws_of_one_outcome_alone() -> None:
    grid, draws = stepped(skip=False)
    one = pa.Table.from_pylist([row | {"outcome": "A"} for row in draws.to_pylist()], DRAWS)
    for estimator in ("forkhmm", "full", "kernel", "segment", "raw"):
        found = smoothed(grid, one, estimator)
        assert set(found.curves.column("share").to_pylist()) == {1.0}
        assert found.forks.num_rows == 0


def test_rollouts_without_a_curve_are_named() -> None:
    key = {"question_id": "b", "rollout": 0, "position": 20}
    grid, draws = stepped(skip=False)
    short = pa.Table.from_pylist([grid_row(key, [1], [1.0])], GRID)
    found = smoothed(pa.concat_tables([short, grid]), draws)
    assert set(found.curves.column("question_id").to_pylist()) == {"a"}
    (one,) = found.left_out
    assert (one["question_id"], one["rollout"]) == ("b", 0)
    assert one["reason"].startswith("positions of the grid with draws: 0")


def test_a_shard_without_curves() -> None:
    found = smoothed(GRID.empty_table(), DRAWS.empty_table())
    assert (found.curves.schema, found.steps.schema, found.forks.schema) == (CURVES, STEPS, FORKS)
    assert found.curves.num_rows + found.steps.num_rows + found.forks.num_rows == 0


def test_draws_that_cannot_be_fitted_are_named() -> None:
    with pytest.raises(ReforkError, match="question 'a', rollout 2: penalty is -1"):
        smoothed(*stepped(skip=False), "segment:penalty=-1")


def test_draws_of_every_branch_are_weighed() -> None:
    grid, rows = [], []
    for token, number in product(range(20), range(10)):
        key = {"question_id": "a", "rollout": 0, "position": 30 + token}
        if number == 0:
            grid.append(grid_row(key, [1, 2], [0.9, 0.1]))
        rows += [draw_rows(key, branch, number, "AB"[branch]) for branch in (0, 1)]
    draws = estimate_curves(
        {"settings": {"curves": {"branches": "each"}}},
        pa.Table.from_pylist(grid, GRID),
        pa.Table.from_pylist([graded for graded, _ in rows], OUTCOMES),
        [pa.Table.from_pylist([continued for _, continued in rows], CONTINUATIONS)],
    )
    for estimator in ("forkhmm:labels=false", "full", "raw"):
        curves = smoothed(pa.Table.from_pylist(grid, GRID), draws, estimator).curves
        shares = curves.column("share").to_numpy().reshape(20, 2)
        assert np.abs(shares - [0.9, 0.1]).max() < 0.05
        assert np.allclose(curves.column("raw").to_numpy().reshape(20, 2), [0.9, 0.1])

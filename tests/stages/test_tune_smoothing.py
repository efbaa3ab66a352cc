"""From draws to the scores of estimators and the choice."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from helpers.curve_tables import chain_curve, grid_row, synthetic_chain
from refork.data.schemas import DRAWS, GRID
from refork.data.tuning_record import TuningRecord
from refork.errors import ReforkError
from refork.stages.curve_samples import rollout_draws
from refork.stages.estimate_curves import estimate_curves
from refork.stages.tune_smoothing import tune_smoothing
from refork.stats.curves.forkhmm import ForkHMM
from refork.stats.curves.tuning import Contest, tune

SMOOTHING: dict[str, Any] = {
    "estimator": "auto",
    "candidates": ["forkhmm", "full:penalty=8", "raw"],
    "folds": 5,
}


def chosen(grid: pa.Table, draws: pa.Table, **changed: Any) -> TuningRecord:
    return tune_smoothing({"settings": {"smoothing": SMOOTHING | changed}}, grid, draws)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, pa.Table]:
    """Make two rollouts of the chain, the second half as long, with 10 draws a token."""
    chain = synthetic_chain(tmp_path_factory.mktemp("chain"))
    made = [
        chain_curve(chain, question, draws=10, seed=seed, length=length)
        for question, seed, length in (("a", 1, 40), ("b", 2, 20))
    ]
    stage = {"settings": {"curves": {"branches": "mixture"}}}
    draws = [estimate_curves(stage, one.grid, one.outcomes, [one.continuations]) for one in made]
    return pa.concat_tables([one.grid for one in made]), pa.concat_tables(draws)


def test_scores_are_held_out_log_likelihoods(tables: tuple[pa.Table, pa.Table]) -> None:
    record = chosen(*tables)
    forkhmm, full, raw = record.candidates
    samples = [one.sample for one in rollout_draws(*tables)[0]]
    nats = [tune(Contest([ForkHMM()]), sample).scores.sum() for sample in samples]
    assert [score.draws for score in forkhmm.rollouts] == [400, 200]
    assert [score.nats_per_draw for score in forkhmm.rollouts] == pytest.approx(
        [nats[0] / 400, nats[1] / 200]
    )
    assert forkhmm.nats_per_draw == pytest.approx(sum(nats) / 600)
    assert forkhmm.nats_per_draw is not None
    assert full.nats_per_draw is not None
    assert np.log(1 / 4) < full.nats_per_draw < forkhmm.nats_per_draw
    hyper_parameters = full.rollouts[0].chosen or {}
    assert hyper_parameters["penalty"] == 8.0
    assert hyper_parameters["selection"] == "5-fold cross-validation"
    assert raw.nats_per_draw is None
    assert raw.reason is not None
    assert raw.reason.startswith("question 'a', rollout 0: a held-out draw had an outcome that")


def test_the_best_candidate_is_chosen_where_it_is_asked_for(
    tables: tuple[pa.Table, pa.Table],
) -> None:
    record = chosen(*tables)
    assert (record.estimator, record.why) == ("forkhmm", "auto")
    assert chosen(*tables, candidates=["raw", "kernel:bandwidth=128", "kernel"]).estimator == (
        "kernel"
    )
    given = chosen(*tables, estimator="segment", candidates=["raw"])
    assert (given.estimator, given.why) == ("segment", "given")
    assert [one.estimator for one in given.candidates] == ["raw"]
    first = chosen(*tables, candidates=["raw"])
    assert (first.estimator, first.why) == ("raw", "auto")
    assert first.how == "raw is the first candidate; none could be scored"


def test_the_first_of_equal_candidates_wins(tables: tuple[pa.Table, pa.Table]) -> None:
    for names in (["forkhmm", "forkhmm:labels=true"], ["forkhmm:labels=true", "forkhmm"]):
        assert chosen(*tables, candidates=names).estimator == names[0]


def test_folds_are_those_of_the_config(tables: tuple[pa.Table, pa.Table]) -> None:
    record = chosen(*tables, candidates=["kernel"], folds=2)
    assert record.folds == 2
    (kernel,) = record.candidates
    assert (kernel.rollouts[0].chosen or {})["selection"] == "2-fold cross-validation"
    (of_five,) = chosen(*tables, candidates=["kernel"]).candidates
    assert kernel.nats_per_draw != of_five.nats_per_draw


def test_one_draw_a_position_cannot_be_scored(tables: tuple[pa.Table, pa.Table]) -> None:
    grid, draws = tables
    record = chosen(grid, draws.filter(pc.equal(draws.column("draw"), 0)))
    assert record.estimator == "forkhmm"
    for candidate in record.candidates:
        assert candidate.nats_per_draw is None
        assert {score.reason for score in candidate.rollouts} == {
            "one draw a position cannot be cross-validated"
        }
        assert all(score.chosen is not None for score in candidate.rollouts)


def test_rollouts_without_a_curve_are_named() -> None:
    key = {"question_id": "a", "rollout": 0, "position": 20}
    grid = pa.Table.from_pylist([grid_row(key, [1], [1.0])], GRID)
    draw = key | {"branch": 0, "draw": 0, "outcome": "A", "weight": 1.0, "length": 1}
    record = chosen(grid, pa.Table.from_pylist([draw], DRAWS))
    assert [(one.question_id, one.rollout) for one in record.left_out] == [("a", 0)]
    assert record.candidates[0].reason == "no rollout has a curve"
    assert chosen(GRID.empty_table(), DRAWS.empty_table()).left_out == []


def test_an_estimator_that_does_not_exist() -> None:
    empty = GRID.empty_table(), DRAWS.empty_table()
    with pytest.raises(ReforkError, match="did you mean 'forkhmm'"):
        chosen(*empty, estimator="forkhm")
    with pytest.raises(ReforkError, match="did you mean 'kernel'"):
        chosen(*empty, candidates=["kernl"])
    with pytest.raises(ReforkError, match="where the estimator is auto, one is needed"):
        chosen(*empty, candidates=[])
    assert chosen(*empty, estimator="raw", candidates=[]).candidates == []

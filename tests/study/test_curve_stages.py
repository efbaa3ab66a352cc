"""The stages of outcome curves: what they change in the graph, and what each key runs again."""

from collections.abc import Callable
from typing import Any

import pytest

from helpers.studies import LOCKED, Studies
from refork.errors import ReforkError
from refork.study.cost import stage_cost
from refork.study.curve_stages import CurveStages
from refork.study.folders import link_names, write_records
from refork.study.graph import Graph, build_graph
from refork.study.loading import Study, merge

Locks = Callable[[Study], dict[str, Any]]
Graphs = Callable[..., Graph]

CURVES: dict[str, Any] = {"curves": {"questions": 3, "max_branches": 5}}
ORDER = [
    "lay_grid",
    "resample",
    "grade_outcomes",
    "estimate_curves",
    "tune_smoothing",
    "smooth_curves",
    "report",
]


@pytest.fixture
def graph_of(study_of: Studies, lock_of: Locks) -> Graphs:
    """Lay out a study with curves, with overrides of its keys."""

    def make(**overrides: Any) -> Graph:
        study = study_of(**merge(CURVES, overrides))
        return build_graph(study, lock_of(study))

    return make


def hashes(graph: Graph) -> set[tuple[str, str]]:
    return {(stage.name, stage.hash) for stage in graph.stages()}


def curves_of(graph: Graph) -> CurveStages:
    curves = graph.variants["base"].curves
    assert curves is not None
    return curves


def test_without_questions_there_are_no_stages_of_curves(graph_of: Graphs) -> None:
    graph = graph_of(curves={"questions": 0})
    assert graph.variants["base"].curves is None
    assert not {"lay_grid", "smooth_curves"} & {stage.name for stage in graph.stages()}
    assert list(graph.report.upstream) == ["measure_noise.base"]


def test_curves_leave_the_stages_of_credit_as_they_are(graph_of: Graphs) -> None:
    plain, other = graph_of(curves={"questions": 0}), graph_of()
    assert hashes(plain) - hashes(other) == {("report", plain.report.hash)}
    assert list(other.report.upstream) == ["measure_noise.base", "smooth_curves.base"]


def test_without_curves_their_keys_run_nothing(graph_of: Graphs) -> None:
    plain = graph_of(curves={"questions": 0})
    other = graph_of(curves={"questions": 0, "stride": 7}, smoothing={"level": 0.5})
    assert hashes(plain) == hashes(other)


@pytest.mark.parametrize(
    ("overrides", "first"),
    [
        ({"curves": {"questions": 4}}, "lay_grid"),
        ({"curves": {"stride": 2}}, "lay_grid"),
        ({"curves": {"min_probability": 0.1}}, "lay_grid"),
        ({"curves": {"temperature": 1.0}}, "lay_grid"),
        ({"curves": {"max_tokens": 9}}, "resample"),
        ({"curves": {"state": "prefill"}}, "resample"),
        ({"curves": {"branches": "each"}}, "resample"),
        ({"curves": {"continuations": 40}}, "grade_outcomes"),
        ({"smoothing": {"estimator": "kernel"}}, "tune_smoothing"),
        ({"smoothing": {"folds": 3}}, "tune_smoothing"),
        ({"smoothing": {"level": 0.9}}, "smooth_curves"),
        ({"smoothing": {"curves_drawn": 50}}, "smooth_curves"),
    ],
)
def test_a_key_runs_its_stages_and_those_below(
    graph_of: Graphs, overrides: dict[str, Any], first: str
) -> None:
    before, after = graph_of(), graph_of(**overrides)
    new = [stage for stage in after.stages() if (stage.name, stage.hash) not in hashes(before)]
    assert {stage.name for stage in new} == set(ORDER[ORDER.index(first) :])
    of_curves = {stage.hash for stage in curves_of(after).all()}
    assert {stage.hash for stage in new if stage.name != "report"} <= of_curves


def test_pivots_run_no_stage_of_curves(graph_of: Graphs) -> None:
    before, after = graph_of(), graph_of(pivots={"margin": 0.5})
    assert [stage.hash for stage in curves_of(after).all()] == [
        stage.hash for stage in curves_of(before).all()
    ]


def test_raising_the_draws_adds_blocks_and_keeps_the_hash(graph_of: Graphs) -> None:
    few, many = graph_of(), graph_of(curves={"continuations": 40})
    draws = curves_of(few).draws
    assert curves_of(many).draws.hash == draws.hash
    assert few.draw_blocks(draws) == ["0000-0009", "0010-0019", "0020-0029"]
    assert set(few.outputs(draws)) < set(many.outputs(draws))
    folders = many.draw_folders("estimate_curves", curves_of(many).estimates.hash)
    assert [folder.rpartition("draws-")[2] for folder in folders] == many.draw_blocks(draws)


def test_an_outcome_is_of_pivots_or_of_a_grid(graph_of: Graphs) -> None:
    graph = graph_of()
    variant, either = graph.variants["base"], ("extract_pivots", "lay_grid")
    folder = graph.upstream("grade_outcomes", variant.outcomes.hash, *either)
    assert folder == graph.folder(variant.pivots)
    folder = graph.upstream("grade_outcomes", curves_of(graph).outcomes.hash, *either)
    assert folder == graph.folder(curves_of(graph).grid)


def test_the_cost_of_curves_is_bounded(graph_of: Graphs) -> None:
    lock = {"variants": {"base": LOCKED}}
    graph = graph_of(curves={"stride": 4, "max_tokens": 100})
    cost = stage_cost(graph, curves_of(graph).draws, lock)
    # 3 questions, 512 / 4 positions, 30 draws; 3 blocks of 2 shards.
    assert (cost.jobs, cost.requests, cost.tokens) == (6, 3 * 128 * 30, 3 * 128 * 30 * 100)
    each = graph_of(curves={"stride": 4, "branches": "each", "questions": None})
    cost = stage_cost(each, curves_of(each).draws, lock)
    assert cost.requests == LOCKED["questions"]["count"] * 128 * 30 * 5


def test_readable_names_tell_the_two_kinds_of_outcomes_apart(
    graph_of: Graphs, in_folder: object
) -> None:
    graph = graph_of()
    write_records(graph)
    link_names(graph)
    folder, variant, curves = graph.study_folder / "base", graph.variants["base"], curves_of(graph)
    for name, stage in {
        "grade_outcomes": variant.outcomes,
        "grade_outcomes.curve": curves.outcomes,
        "resample/curve": curves.draws,
        "resample/refeed": variant.passes["refeed"],
        "smooth_curves": curves.smooth,
    }.items():
        assert (folder / name).resolve() == graph.folder(stage).resolve()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"curves": {"max_branches": 6}}, "curves.max_branches: is 6, but only the 5"),
        ({"curves": {"rollouts": 9}}, "curves.rollouts: is 9; at most `rollouts.count`"),
        ({"curves": {"grid": "sentences", "stride": 2}}, "curves.stride: a grid of sentences"),
        ({"passes": [{"name": "curve", "state": "exact"}], "noise": {"comparisons": []}}, "rename"),
        ({"smoothing": {"estimator": "forkhm"}}, "smoothing.estimator: no estimator 'forkhm'"),
        ({"smoothing": {"candidates": ["raw", "ra"]}}, "smoothing.candidates.1: no estimator"),
        ({"smoothing": {"candidates": []}}, "smoothing.candidates: at least one"),
        ({"smoothing": {"epsilon": []}}, "smoothing.epsilon: at least one"),
        ({"curves": {"min_probability": 0.0}}, "curves.min_probability: is 0.0"),
        ({"curves": {"state": "snapshot"}, "engine": {"kind": "vllm"}}, "vLLM keeps no snapshots"),
    ],
)
def test_what_curves_cannot_be_is_said(
    study_of: Studies, overrides: dict[str, Any], words: str
) -> None:
    with pytest.raises(ReforkError) as refused:
        study_of(**merge(CURVES, overrides))
    assert words in str(refused.value)


def test_auto_is_an_estimator(study_of: Studies) -> None:
    study = study_of(**CURVES, smoothing={"estimator": "auto"})
    assert study.settings.smoothing.estimator == "auto"

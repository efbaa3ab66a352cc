"""A study is opened, its folders explain themselves, its results folder is held."""

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.studies import LOCKED, Studies
from refork.data.files import read_json
from refork.data.manifest import write_manifest
from refork.engines.model_source.source import ModelSource, make_model_folder
from refork.errors import ReforkError
from refork.study.cost import stage_cost
from refork.study.folders import link_names, model_folder, read_record, write_records
from refork.study.graph import Graph, build_graph
from refork.study.loading import Study
from refork.study.opening import begin_run, hold_results, open_study

Locks = Callable[[Study], dict[str, Any]]
HOLD = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from refork.study.opening import hold_results
    held = hold_results(Path(sys.argv[1]))
    print("held", flush=True)
    time.sleep(60)
""")


@pytest.fixture
def graph(in_folder: Path, study_of: Studies, lock_of: Locks) -> Graph:
    study = study_of(variants={"a": {}, "b": {"pivots": {"margin": 0.5}}})
    return build_graph(study, lock_of(study))


def test_every_stage_folder_explains_itself(graph: Graph) -> None:
    write_records(graph)
    for stage in graph.stages():
        path = graph.folder(stage) / "stage.json"
        assert read_record(path) == stage.record == read_json(path)
    written = {p: p.stat().st_mtime_ns for p in graph.root.rglob("stage.json")}
    write_records(graph)
    assert {p: p.stat().st_mtime_ns for p in written} == written


def test_an_edited_record_is_refused(graph: Graph) -> None:
    write_records(graph)
    path = graph.folder(graph.report) / "stage.json"
    path.write_text(path.read_text().replace("colorblind", "deep"))
    with pytest.raises(ReforkError, match="was edited; its hash is"):
        read_record(path)


def test_the_model_of_a_stage(graph: Graph) -> None:
    stage = graph.variants["a"].rollouts
    record = graph.folder(stage) / "stage.json"
    folder = graph.folder(graph.variants["a"].model) / "model"
    settings = {"settings": {"model": {"folder": None}}}
    write_manifest(folder, settings, time.time())
    assert model_folder(record, stage.record) == folder


def test_a_model_folder_that_changes_behind_the_lock_is_refused(
    graph: Graph, synthetic_model: Path
) -> None:
    stage = graph.variants["a"].rollouts
    record = graph.folder(stage) / "stage.json"
    own = Path(shutil.copytree(synthetic_model, "own"))
    folder = graph.folder(graph.variants["a"].model) / "model"
    facts = make_model_folder(ModelSource(folder=str(own)), folder)
    settings = {"settings": {"model": {"folder": str(own)}}}
    write_manifest(folder, settings, time.time(), facts)
    assert model_folder(record, stage.record) == folder
    template = own / "chat_template.jinja"
    content = template.read_text()
    template.write_text("")
    with pytest.raises(ReforkError, match="own: has changed since it was locked"):
        model_folder(record, stage.record)
    template.write_text(content)
    assert model_folder(record, stage.record) == folder


def test_readable_names_lead_to_the_stages(graph: Graph) -> None:
    write_records(graph)
    link_names(graph)
    link_names(graph)
    for name, variant in graph.variants.items():
        folder = graph.study_folder / name
        assert (folder / "extract_pivots").resolve() == graph.folder(variant.pivots).resolve()
        refeed = graph.folder(variant.passes["refeed"])
        assert (folder / "resample" / "refeed").resolve() == refeed.resolve()
    assert (graph.study_folder / "report.html").readlink().name == "report.html"


def test_a_held_folder_is_refused_with_the_holders_name(in_folder: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(in_folder / "results")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ReforkError, match=rf"another run is at work.*process {other.pid}"):
            hold_results(in_folder / "results")
        other.kill()
    with hold_results(in_folder / "results") as held:
        held.seek(0)
        assert f"process {os.getpid()}" in held.read()


def test_a_results_folder_that_cannot_be_written_is_said(in_folder: Path) -> None:
    (in_folder / "results").write_text("a file stands there")
    with pytest.raises(ReforkError, match="results: the results folder cannot be written"):
        hold_results(Path("results"))


def test_a_study_is_opened_and_begun(in_folder: Path) -> None:
    (in_folder / "q.jsonl").write_text('{"id": "a", "question": "1 + 1?", "answer": "2"}\n')
    config = {"study": "s", "questions": {"file": "q.jsonl"}, "engine": {"kind": "synthetic"}}
    graph = open_study(config, "s.yaml")
    with begin_run(graph):
        assert (graph.study_folder / "base" / "prepare_model" / "stage.json").exists()
    with pytest.raises(ReforkError, match=r"s\.yaml: 1 error"):
        open_study({**config, "seed": -1}, "s.yaml")
    Path("s.yaml").write_text("seed: 1\nseed: 2\n")
    with pytest.raises(ReforkError, match="the key `seed` stands there twice"):
        open_study(config, "s.yaml")


def test_the_cost_of_stages(graph: Graph, lock_of: Locks) -> None:
    lock = {"variants": dict.fromkeys(graph.variants, LOCKED)}
    variant = graph.variants["a"]
    rollouts = stage_cost(graph, variant.rollouts, lock)
    assert (rollouts.jobs, rollouts.to_run) == (2, 2)
    assert (rollouts.requests, rollouts.tokens) == (10 * 8, 10 * 8 * 512)
    arms = 10 * 8 * 5 * 2
    refeed = stage_cost(graph, variant.passes["refeed"], lock)
    assert (refeed.requests, refeed.tokens) == (arms * 5, arms * (4 * 400 + 32))
    [path, _] = graph.outputs(variant.rollouts)
    path.parent.mkdir(parents=True)
    path.touch()
    assert stage_cost(graph, variant.rollouts, lock).to_run == 1
    assert stage_cost(graph, variant.questions, lock).jobs == 1
    assert stage_cost(graph, graph.report, lock).tokens == 0


def test_a_probe_is_named_costed_and_explained(
    in_folder: Path, study_of: Studies, lock_of: Locks
) -> None:
    study = study_of(engine={"kernels": "batch_invariant"})
    graph = build_graph(study, lock_of(study))
    probe = graph.variants["base"].probe
    assert probe is not None
    write_records(graph)
    link_names(graph)
    named = graph.study_folder / "base" / "probe_engine" / "stage.json"
    assert read_record(named) == probe.record
    cost = stage_cost(graph, probe, lock_of(study))
    # 64 rows, twice; 16 rollouts are compared: 4 alone, 8 among fewer, 16 + 8 + 8 from the middle.
    assert (cost.jobs, cost.to_run, cost.requests) == (1, 1, 2 * 64 + 4 + 8 + 32)
    assert cost.tokens == cost.tokens_to_run == (2 * 64 + 4 + 8) * 24 + 32 * 11
    [output] = graph.outputs(probe)
    output.touch()
    done = stage_cost(graph, probe, lock_of(study))
    assert (done.to_run, done.tokens_to_run) == (0, 0)
    assert graph.demand("probe_engine") == graph.demand("sample_rollouts")


def test_variants_that_share_a_pass_may_differ_in_k(
    in_folder: Path, study_of: Studies, lock_of: Locks
) -> None:
    study = study_of(variants={"a": {}, "b": {"resample": {"continuations": 6}}})
    graph = build_graph(study, lock_of(study))
    refeed = stage_cost(graph, graph.variants["a"].passes["refeed"], lock_of(study))
    assert refeed.jobs == 2 * 2  # two shards, draws 0 to 3 and 4 to 5
    assert refeed.requests == 10 * 8 * 5 * 2 * (6 + 1)
    assert refeed.tokens_to_run == refeed.tokens


def test_a_raised_k_costs_its_new_blocks_only(
    in_folder: Path, study_of: Studies, lock_of: Locks
) -> None:
    study = study_of(resample={"continuations": 8})
    graph = build_graph(study, lock_of(study))
    refeed = graph.variants["base"].passes["refeed"]
    for path in graph.outputs(refeed):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name == "draws-0000-0003":
            path.touch()
    arms = 10 * 8 * 5 * 2
    cost = stage_cost(graph, refeed, lock_of(study))
    assert (cost.tokens, cost.tokens_to_run) == (arms * (8 * 400 + 32), arms * 4 * 400)
    for path in graph.outputs(refeed):
        path.touch()
    assert stage_cost(graph, refeed, lock_of(study)).tokens_to_run == 0

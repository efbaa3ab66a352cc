"""What each key runs again: exactly the stages that read it and those below."""

from collections.abc import Callable
from typing import Any

import pytest

from helpers.studies import LOCKED, Studies
from refork.errors import ReforkError
from refork.study.config import Settings
from refork.study.graph import Graph, block_draws, build_graph, draw_blocks
from refork.study.loading import Study

Locks = Callable[[Study], dict[str, Any]]

ORDER = [
    "prepare_model",
    "prepare_questions",
    "sample_rollouts",
    "extract_pivots",
    "resample",
    "grade_outcomes",
    "measure_noise",
    "report",
]


SNAPSHOTS = [
    {"name": "exact", "state": "snapshot"},
    {"name": "replica", "state": "snapshot"},
    {"name": "refeed", "state": "prefill"},
]
VLLM = {"kind": "vllm", "device": "cpu", "version": "1", "block_size": 32, "exact": "decode_replay"}
INVARIANT = {"kernels": "batch_invariant"}


@pytest.fixture
def graph_of(study_of: Studies, lock_of: Locks) -> Callable[..., Graph]:
    def make(locked: dict[str, Any] | None = None, **overrides: Any) -> Graph:
        study = study_of(**overrides)
        lock = lock_of(study)
        if locked is not None:
            lock = {"variants": {name: {**LOCKED, **locked} for name in study.variants}}
        return build_graph(study, lock)

    return make


def changed(one: Graph, other: Graph) -> set[str]:
    """Return the names of the stages of `other` that `one` does not have."""
    known = {(stage.name, stage.hash) for stage in one.stages()}
    return {stage.name for stage in other.stages() if (stage.name, stage.hash) not in known}


@pytest.mark.parametrize(
    ("overrides", "first"),
    [
        ({"prompt": {"system": "Be brief."}}, "prepare_questions"),
        ({"rollouts": {"count": 3}}, "prepare_questions"),
        ({"questions": {"shards": 3}}, "prepare_questions"),
        ({"rollouts": {"temperature": 1.0}}, "sample_rollouts"),
        ({"engine": {"dtype": "float32"}}, "sample_rollouts"),
        ({"engine": {"threads": 2}}, "sample_rollouts"),
        ({"engine": {"batch_rows": 8}}, "sample_rollouts"),
        ({"engine": {"group_questions": 1}}, "sample_rollouts"),
        ({"seed": 1}, "sample_rollouts"),
        ({"pivots": {"margin": 0.5}}, "extract_pivots"),
        ({"resample": {"max_tokens": 9}}, "resample"),
        ({"resample": {"draw_block": 2}}, "resample"),
        ({"resample": {"continuations": 8}}, "grade_outcomes"),
        ({"grading": {"grader": "number"}}, "grade_outcomes"),
        ({"noise": {"margin_split": 0.2}}, "measure_noise"),
        ({"report": {"palette": "deep"}}, "report"),
        ({"study": "renamed"}, "report"),
    ],
)
def test_a_key_runs_its_stages_and_those_below(
    graph_of: Callable[..., Graph], overrides: dict[str, Any], first: str
) -> None:
    assert changed(graph_of(), graph_of(**overrides)) == set(ORDER[ORDER.index(first) :])


@pytest.mark.parametrize(
    "overrides",
    [
        {"results": "elsewhere"},
        {"resources": {"resample": {"mem_mb": 1}}},
        {"engine": {"python": "python3"}},
        {"engine": {"processes": 2}},
        {"pivots": {"block_slack": 1}},  # no blocks in this engine
        {"engine": {"synthetic": {"replay_noise": 0.5}}},  # not that engine
        {"engine": {"vllm": {"tail": "decode"}}},
        {"resources": {"sample_rollouts": {"gpu": 2}}},
        {"passes": SNAPSHOTS},  # what `exact` means for this engine
    ],
)
def test_what_changes_no_result_is_in_no_hash(
    graph_of: Callable[..., Graph], overrides: dict[str, Any]
) -> None:
    assert changed(graph_of(), graph_of(**overrides)) <= {"report"}
    assert (
        graph_of().variants["base"].noise.hash == graph_of(**overrides).variants["base"].noise.hash
    )


@pytest.mark.parametrize(
    ("locked", "first"),
    [
        ({"model": {"digest": "other"}}, "prepare_model"),
        ({"questions": {"digest": "other", "count": 10}}, "prepare_questions"),
        ({"questions": {"digest": "q", "count": 11}}, None),
        ({"examples": "other"}, "prepare_questions"),
        ({"engine": {**LOCKED["engine"], "version": "2"}}, "sample_rollouts"),
        ({"engine": {**LOCKED["engine"], "block_size": 16}}, "sample_rollouts"),
    ],
)
def test_the_lock_runs_its_stages(
    graph_of: Callable[..., Graph], locked: dict[str, Any], first: str | None
) -> None:
    wanted = set(ORDER[ORDER.index(first) :]) if first else set()
    assert changed(graph_of(), graph_of(locked)) == wanted


@pytest.mark.parametrize("engine", [{"python": "python3"}, {"processes": 2}])
def test_how_the_engine_is_started_runs_no_report(
    graph_of: Callable[..., Graph], engine: dict[str, Any]
) -> None:
    assert changed(graph_of(), graph_of(engine=engine)) == set()


def vllm_graph(graph_of: Callable[..., Graph], **overrides: Any) -> Graph:
    """Lay out a study on vLLM."""
    engine = {"kind": "vllm", **overrides.pop("engine", {})}
    return graph_of({"engine": VLLM}, engine=engine, **overrides)


def test_the_state_exact_is_settled_by_the_lock(graph_of: Callable[..., Graph]) -> None:
    torch = graph_of().variants["base"].passes
    states = {name: stage.settings["pass"]["state"] for name, stage in torch.items()}
    assert states == {"exact": "snapshot", "replica": "snapshot", "refeed": "prefill"}
    variant = vllm_graph(graph_of).variants["base"]
    states = {name: stage.settings["pass"]["state"] for name, stage in variant.passes.items()}
    assert states == {"exact": "decode_replay", "replica": "decode_replay", "refeed": "prefill"}
    assert variant.noise.lock == {"block_size": 32, "exact": "decode_replay"}
    assert graph_of().variants["base"].noise.lock == {"block_size": 1}


def test_a_lock_that_names_no_exact_state_keeps_its_hashes(graph_of: Callable[..., Graph]) -> None:
    named = graph_of({"engine": {**LOCKED["engine"], "exact": "snapshot"}})
    assert changed(graph_of(), named) == set()


def test_vllm_is_asked_for_no_snapshots(graph_of: Callable[..., Graph]) -> None:
    kept = vllm_graph(graph_of).variants["base"].rollouts
    assert kept.settings["rollouts"]["snapshots"] is False
    assert graph_of().variants["base"].rollouts.settings["rollouts"]["snapshots"] is True
    unkept = vllm_graph(graph_of, rollouts={"snapshots": False}).variants["base"].rollouts
    assert unkept.hash == kept.hash


def test_vllm_that_keeps_snapshots_goes_on_from_any_token(graph_of: Callable[..., Graph]) -> None:
    locked = {"engine": {**VLLM, "block_size": 1, "exact": "snapshot"}}
    vllm = {"snapshots": True}
    keeping = graph_of(locked, engine={"kind": "vllm", "vllm": vllm})
    variant = keeping.variants["base"]
    states = {name: stage.settings["pass"]["state"] for name, stage in variant.passes.items()}
    assert states == {"exact": "snapshot", "replica": "snapshot", "refeed": "prefill"}
    assert variant.rollouts.settings["rollouts"]["snapshots"] is True
    assert variant.noise.lock == variant.pivots.lock == {"block_size": 1}
    assert "block_slack" not in variant.pivots.settings["pivots"]
    told = variant.rollouts.settings["engine"]["vllm"]
    assert (told["snapshots"], told["block_size"]) == (True, 32)
    wide = graph_of(locked, engine={"kind": "vllm", "vllm": {**vllm, "block_size": 64}})
    assert wide.variants["base"].rollouts.settings["engine"]["vllm"]["block_size"] == 64


def test_snapshots_of_vllm_are_hashed_where_they_are_kept_alone(
    graph_of: Callable[..., Graph],
) -> None:
    plain = vllm_graph(graph_of)
    assert "snapshots" not in plain.variants["base"].rollouts.settings["engine"]["vllm"]
    assert "snapshots" not in plain.report.settings["base"]["engine"]["vllm"]
    keeping = vllm_graph(graph_of, engine={"vllm": {"snapshots": True}})
    assert changed(plain, keeping) == set(ORDER[ORDER.index("sample_rollouts") :])
    assert keeping.report.settings["base"]["engine"]["vllm"]["snapshots"] is True


@pytest.mark.parametrize(
    "vllm",
    [
        {"tail": "decode"},
        {"filler_rows": 40},
        {"max_length": 512},
        {"arguments": {"enforce_eager": True}},
    ],
)
def test_what_vllm_is_started_with_samples_anew(
    graph_of: Callable[..., Graph], vllm: dict[str, Any]
) -> None:
    plain, other = vllm_graph(graph_of), vllm_graph(graph_of, engine={"vllm": vllm})
    assert changed(plain, other) == set(ORDER[ORDER.index("sample_rollouts") :])


def test_the_default_block_size_is_the_locked_one(graph_of: Callable[..., Graph]) -> None:
    plain = vllm_graph(graph_of).variants["base"].rollouts
    said = vllm_graph(graph_of, engine={"vllm": {"block_size": 32}}).variants["base"].rollouts
    assert said.hash == plain.hash
    assert plain.settings["engine"]["vllm"]["block_size"] == 32
    assert "vllm" not in graph_of().variants["base"].rollouts.settings["engine"]


def test_slack_about_blocks_is_read_where_there_are_blocks(graph_of: Callable[..., Graph]) -> None:
    plain, other = vllm_graph(graph_of), vllm_graph(graph_of, pivots={"block_slack": 0})
    assert changed(plain, other) == set(ORDER[ORDER.index("extract_pivots") :])


@pytest.mark.parametrize(
    ("locked", "overrides", "gpus"),
    [
        (LOCKED["engine"], {}, 0),
        (LOCKED["engine"], {"resources": {"resample": {"gpu": 3}}}, 3),
        ({**LOCKED["engine"], "device": "cuda"}, {}, 1),
        ({**LOCKED["engine"], "device": "cuda"}, {"resources": {"resample": {"gpu": 0}}}, 0),
        ({**VLLM, "device": "cuda"}, {"engine": {"vllm": {"tensor_parallel": 4}}}, 4),
    ],
)
def test_a_job_asks_for_the_gpus_that_its_engine_runs_on(
    graph_of: Callable[..., Graph], locked: dict[str, Any], overrides: dict[str, Any], gpus: int
) -> None:
    device = {"kind": locked["kind"], "device": locked["device"]}
    engine = {**device, **overrides.get("engine", {})}
    graph = graph_of({"engine": locked}, **{**overrides, "engine": engine})
    stage = graph.variants["base"].passes["refeed"]
    assert graph.gpus("resample", stage.hash) == gpus


def test_batch_invariant_kernels_are_probed_first(graph_of: Callable[..., Graph]) -> None:
    stock, invariant = graph_of(), graph_of(engine=INVARIANT)
    assert changed(stock, invariant) == {"probe_engine", *ORDER[ORDER.index("sample_rollouts") :]}
    variant = invariant.variants["base"]
    assert variant.probe is not None
    assert variant.rollouts.upstream["probe_engine"] == variant.probe
    names = [stage.name for stage in variant.all()]
    assert names[:4] == [*ORDER[:2], "probe_engine", "sample_rollouts"]
    probed = stock.variants["base"]
    assert probed.probe is None
    assert "probe_engine" not in [stage.name for stage in stock.stages()]
    folder = invariant.root / "probe_engine" / variant.probe.hash
    assert invariant.outputs(variant.probe) == [folder / "probe.json"]
    assert invariant.upstream("sample_rollouts", variant.rollouts.hash, "probe_engine") == folder


@pytest.mark.parametrize(
    ("overrides", "probed"),
    [
        ({"seed": 1}, True),
        ({"prompt": {"system": "Be brief."}}, True),
        ({"engine": {"dtype": "float32"}}, True),
        ({"engine": {"batch_rows": 8}}, True),
        ({"rollouts": {"top_p": 0.5}}, True),
        ({"engine": {"processes": 2}}, False),
        ({"rollouts": {"max_tokens": 9}}, False),
        ({"resample": {"top_p": 0.5}}, False),
        ({"report": {"palette": "deep"}}, False),
    ],
)
def test_what_the_probe_reads_runs_it_again(
    graph_of: Callable[..., Graph], overrides: dict[str, Any], probed: bool
) -> None:
    engine = {**INVARIANT, **overrides.get("engine", {})}
    before, after = graph_of(engine=INVARIANT), graph_of(**{**overrides, "engine": engine})
    assert ("probe_engine" in changed(before, after)) == probed


def test_the_probe_depends_on_the_locked_engine(graph_of: Callable[..., Graph]) -> None:
    other = graph_of({"engine": {**LOCKED["engine"], "version": "2"}}, engine=INVARIANT)
    assert "probe_engine" in changed(graph_of(engine=INVARIANT), other)


def test_variants_that_differ_in_kernels_share_what_lies_before_the_engine(
    graph_of: Callable[..., Graph],
) -> None:
    variants = {"stock": {}, "invariant": {"engine": INVARIANT}}
    names = [stage.name for stage in graph_of(variants=variants).stages()]
    counts = {name: names.count(name) for name in ORDER}
    assert (counts["prepare_model"], counts["prepare_questions"]) == (1, 1)
    assert counts["sample_rollouts"] == counts["measure_noise"] == 2
    assert names.count("probe_engine") == 1


def test_a_new_pass_runs_that_pass_alone(graph_of: Callable[..., Graph]) -> None:
    passes = [item.model_dump() for item in Settings().passes]
    more = graph_of(passes=[*passes, {"name": "reseeded", "state": "exact", "seed": 1}])
    new = [s for s in more.stages() if (s.name, s.hash) not in _hashes(graph_of())]
    assert [s.settings["pass"]["name"] for s in new if s.name == "resample"] == ["reseeded"]


def test_every_pass_has_its_own_hash(graph_of: Callable[..., Graph]) -> None:
    passes = graph_of().variants["base"].passes
    assert len({stage.hash for stage in passes.values()}) == 3


def test_raising_k_adds_blocks_and_keeps_the_hash(graph_of: Callable[..., Graph]) -> None:
    few, many = graph_of(), graph_of(resample={"continuations": 8})
    stage = few.variants["base"].passes["refeed"]
    assert many.variants["base"].passes["refeed"].hash == stage.hash
    assert set(few.outputs(stage)) < set(many.outputs(stage))


def test_variants_share_the_stages_before_their_difference(graph_of: Callable[..., Graph]) -> None:
    graph = graph_of(variants={"a": {}, "b": {"pivots": {"margin": 0.5}}})
    names = [stage.name for stage in graph.stages()]
    assert names.count("sample_rollouts") == 1
    assert names.count("extract_pivots") == 2
    assert graph.variants_of(graph.variants["a"].rollouts) == ["a", "b"]


def test_the_order_of_keys_does_not_matter(graph_of: Callable[..., Graph]) -> None:
    one = graph_of(engine={"threads": 2, "batch_rows": 8})
    other = graph_of(engine={"batch_rows": 8, "threads": 2})
    assert changed(one, other) == set()


def test_a_draw_block_is_named_by_its_first_and_last_draw() -> None:
    assert draw_blocks(6, 4) == ["0000-0003", "0004-0005"]
    assert list(block_draws("0004-0005")) == [4, 5]


def test_a_stage_that_is_not_the_studys_is_named(graph_of: Callable[..., Graph]) -> None:
    with pytest.raises(ReforkError, match="no stage resample/00 in study small"):
        graph_of().settings_of("resample", "00")


def _hashes(graph: Graph) -> set[tuple[str, str]]:
    return {(stage.name, stage.hash) for stage in graph.stages()}

"""Stage probe_engine: an engine that is not invariant is found out: the way, the layer, how far."""

import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from helpers.probed_engine import LAYERS, LayeredEngine, Rows
from helpers.repository import ROOT
from refork.data.files import write_json
from refork.data.manifest import manifest_path, write_manifest
from refork.data.probe_record import ProbeRecord, Way, read_probe
from refork.data.schemas import QUESTIONS
from refork.data.tables import from_rows, write_table
from refork.engines import KINDS, open_engine
from refork.engines.describe import describe
from refork.engines.interface import EngineSettings, SyntheticSettings
from refork.engines.synthetic.engine import SyntheticEngine
from refork.errors import EngineError
from refork.stages.probe_engine import Engines, open_engines, probe_engine, require_invariant
from refork.stages.probe_requests import reference_requests, shuffled
from refork.stages.probe_states import StateFile, state_distance
from refork.study.probe_extent import ProbeExtent
from refork.study.stage import Stage

States = dict[str, NDArray[np.float32]]
BATCH_ROWS = 24
SETTINGS: dict[str, Any] = {
    "seed": 3,
    "engine": {
        **{"kind": "synthetic", "device": "cpu", "dtype": "float32", "threads": 1},
        **{"batch_rows": BATCH_ROWS, "kernels": "batch_invariant", "trust_remote_code": False},
        "synthetic": SyntheticSettings().__dict__,
    },
    "rollouts": {"temperature": 1.0, "top_p": 1.0, "top_k": 0},
}
LOCK = {"engine": describe("synthetic", "cpu")}
STAGE = {"settings": SETTINGS, "lock": LOCK}


def questions(count: int = 5, rollouts: int = 2) -> pa.Table:
    rows = [
        {
            **{"question_id": f"q{number}", "rollout": rollout, "kind": "text", "choices": None},
            **{"question": "?", "answer": "B", "messages": "[]"},
            "prompt_token_ids": [10 + number, 20, 30 + rollout],
        }
        for number in range(count)
        for rollout in range(rollouts)
    ]
    return from_rows(rows, QUESTIONS)


@pytest.fixture
def engine(synthetic_model: Path) -> LayeredEngine:
    settings = EngineSettings("synthetic", "cpu", "float32", 1, BATCH_ROWS)
    return LayeredEngine(settings, synthetic_model)


def probed(engine: Any, folder: Path, **given: Any) -> ProbeRecord:
    asked = given.pop("questions", questions())
    return probe_engine(STAGE, Engines(engine, engine), asked, folder, ProbeExtent(**given))[0]


def differing(record: ProbeRecord) -> dict[str, Way]:
    return {way.way: way for way in record.ways if not way.same}


def spoiler(
    chosen: Callable[[Rows, int], bool], logprob: float = 0.0, layer: int | None = None
) -> Callable[[Rows, Rows, States], None]:
    """Make a change of the chosen requests: of log-probabilities, and of a layer's keys."""

    def spoil(requests: Rows, results: Rows, states: States) -> None:
        for place, (request, result) in enumerate(zip(requests, results, strict=True)):
            if not chosen(requests, place):
                continue
            result["logprobs"] = [value - logprob for value in result["logprobs"]]
            name = f"{request['question_id']}/{request['rollout']}"
            if layer is not None and name in states:
                states[name][layer, 0, 1, 1] += 0.5

    return spoil


def test_an_exact_engine_is_invariant(engine: LayeredEngine, tmp_path: Path) -> None:
    record, facts = probe_engine(STAGE, Engines(engine, engine), questions(), tmp_path)
    assert record.invariant
    assert differing(record) == {}
    assert (record.questions, record.rollouts, record.group) == (4, 16, BATCH_ROWS)
    compared = {way.way: (way.rollouts, way.states) for way in record.ways}
    assert compared["alone"] == (4, 4)
    assert compared["order"] == (16, 16)
    assert compared["narrow"] == (8, 8)
    assert compared["replay"] == compared["refeed"]
    assert 4 <= compared["replay"][0] <= 8 <= compared["resume"][0] <= 16
    by_name = {way.way: way for way in record.ways}
    assert by_name["order"].tokens == record.tokens > by_name["resume"].tokens > 0
    assert by_name["order"].reasons == {
        "first_layer": "no layer differs",
        "layer_delta": "no layer differs",
    }
    requests = BATCH_ROWS - 16 + sum(way.rollouts for way in record.ways) + BATCH_ROWS
    assert facts["requests"] == requests
    asked, tokens = ProbeExtent().demand(5, BATCH_ROWS, keeps_states=True)
    short = 32 - sum(way.rollouts for way in record.ways if way.way in MIDDLE)  # have no middle
    assert asked - short == requests
    assert record.tokens < facts["tokens"] <= tokens
    assert facts["engine"]["engine"] == "synthetic"
    assert not list(tmp_path.glob("*.safetensors"))
    require_invariant(record)


MIDDLE = ("resume", "replay", "refeed")


@pytest.mark.parametrize(
    ("questions", "batch_rows", "keeps_states", "requests"),
    [
        (0, 24, True, 0),
        (1, 4, True, 16 + 4 + 16 + 8 + 16 + 8 + 8),
        (3, 4, False, 15 + 4 + 15 + 8 + 8 + 8),
        (99, 25, True, 28 + 4 + 28 + 8 + 16 + 8 + 8),
    ],
)
def test_what_a_probe_asks_is_bounded_beforehand(
    questions: int, batch_rows: int, keeps_states: bool, requests: int
) -> None:
    bound = ProbeExtent().demand(questions, batch_rows, keeps_states)
    assert bound[0] == requests
    assert bound[1] <= requests * 24


def in_order(requests: Rows) -> bool:
    names = [request["question_id"] for request in requests]
    return names == sorted(names)


CASES = {
    "alone": lambda requests, place: len(requests) == 1,
    "order": lambda requests, place: len(requests) == BATCH_ROWS and not in_order(requests),
    "narrow": lambda requests, place: 1 < len(requests) < 16 and requests[0]["state"] == "fresh",
    "resume": lambda requests, place: requests[place]["state"] == "snapshot",
    "replay": lambda requests, place: requests[place]["state"] == "decode_replay",
    "refeed": lambda requests, place: requests[place]["state"] == "prefill",
}


@pytest.mark.parametrize("layer", [None, 0, LAYERS - 1])
@pytest.mark.parametrize("way", CASES)
def test_what_differs_is_found_with_its_way_layer_and_size(
    engine: LayeredEngine, tmp_path: Path, way: str, layer: int | None
) -> None:
    engine.spoil = spoiler(CASES[way], 0.25, layer)
    record = probed(engine, tmp_path)
    [(name, found)] = differing(record).items()
    assert name == way
    assert found.equal_tokens == found.tokens
    assert 0 <= found.bit_equal < found.tokens
    assert found.largest_delta == pytest.approx(0.25, abs=1e-6)
    assert found.first_layer == layer
    assert found.layer_delta == (None if layer is None else pytest.approx(0.5, abs=1e-6))
    assert record.invariant == (way == "refeed")


def test_more_than_one_request_in_a_group_is_what_alone_tells(
    engine: LayeredEngine, tmp_path: Path
) -> None:
    spoil = spoiler(lambda requests, place: len(requests) > 1, 0.125, 1)
    engine.spoil = spoil
    record = probed(engine, tmp_path)
    assert list(differing(record)) == ["alone"]
    with pytest.raises(EngineError) as caught:
        require_invariant(record)
    words = str(caught.value)
    for said in (
        "engine.kernels: is 'batch_invariant', but the probe finds otherwise",
        f"alone differs: {record.ways[0].tokens} of {record.ways[0].tokens} tokens equal, 0 bit",
        "up to 0.125 nat apart",
        "differ from layer 1 on (there by up to 0.5)",
        "`engine.kernels: stock`",
    ):
        assert said in words
    assert "order differs" not in words


def test_a_difference_of_the_states_alone_is_one(engine: LayeredEngine, tmp_path: Path) -> None:
    engine.spoil = spoiler(CASES["resume"], 0.0, 2)
    record = probed(engine, tmp_path)
    assert not record.invariant
    found = differing(record)["resume"]
    assert (found.bit_equal, found.largest_delta, found.first_layer) == (found.tokens, 0.0, 2)
    assert "bit-equal, keys and values differ from layer 2 on" in found.in_words


def test_behind_another_token_nothing_is_compared(engine: LayeredEngine, tmp_path: Path) -> None:
    def spoil(requests: Rows, results: Rows, states: States) -> None:
        if len(requests) == 1:
            name = f"{requests[0]['question_id']}/{requests[0]['rollout']}"
            results[0]["token_ids"][1] += 1
            results[0]["logprobs"] = [*results[0]["logprobs"][:1], -9.0]
            results[0]["token_ids"] = results[0]["token_ids"][:2]
            states[name][:, :, :, requests[0]["prompt_length"] + 1 :] = 7.0

    engine.spoil = spoil
    found = differing(probed(engine, tmp_path))["alone"]
    assert (found.equal_tokens, found.bit_equal, found.largest_delta) == (4, 4, 0.0)
    assert found.tokens > 4
    assert (found.states, found.first_layer) == (4, None)


def test_where_no_token_is_equal_there_is_no_distance(
    engine: LayeredEngine, tmp_path: Path
) -> None:
    def spoil(requests: Rows, results: Rows, states: States) -> None:
        if len(requests) == 1:
            results[0]["token_ids"][0] += 1

    engine.spoil = spoil
    found = differing(probed(engine, tmp_path))["alone"]
    assert (found.equal_tokens, found.largest_delta) == (0, None)
    assert found.reasons["largest_delta"] == "no token is equal"


def test_a_number_that_is_not_finite_has_no_distance(engine: LayeredEngine, tmp_path: Path) -> None:
    engine.spoil = spoiler(CASES["alone"], float("nan"))
    found = differing(probed(engine, tmp_path))["alone"]
    assert (found.bit_equal, found.largest_delta) == (0, None)
    assert found.reasons["largest_delta"] == "a number is not finite"


def test_an_engine_that_keeps_no_states(engine: LayeredEngine, tmp_path: Path) -> None:
    engine.keeps = False
    record = probed(engine, tmp_path)
    assert record.invariant
    by_name = {way.way: way for way in record.ways}
    assert by_name["resume"].rollouts == 0
    assert set(by_name["resume"].reasons.values()) == {"the engine keeps no states"}
    assert by_name["alone"].reasons["first_layer"].startswith("the engine keeps no keys and values")
    assert "resume was not run (the engine keeps no states)" in record.verdict


def test_an_engine_without_snapshots_is_asked_for_none(
    engine: LayeredEngine, tmp_path: Path
) -> None:
    def refuse(requests: Rows, results: Rows, states: States) -> None:
        assert not any(row["keep_snapshot"] or row["state"] == "snapshot" for row in requests)

    engine.keeps, engine.spoil = False, refuse
    vllm = {**SETTINGS["engine"], "kind": "vllm"}
    stage = {**STAGE, "settings": {**SETTINGS, "engine": vllm}}
    record, _ = probe_engine(stage, Engines(engine, engine), questions(), tmp_path)
    assert record.invariant
    assert [way.way for way in record.ways if not way.rollouts] == ["resume"]
    assert "resume was not run (the engine keeps no states)" in record.verdict


def test_vllm_that_keeps_snapshots_is_asked_for_them(engine: LayeredEngine, tmp_path: Path) -> None:
    vllm = {**SETTINGS["engine"], "kind": "vllm", "vllm": {"snapshots": True}}
    stage = {**STAGE, "settings": {**SETTINGS, "engine": vllm}}
    record, _ = probe_engine(stage, Engines(engine, engine), questions(), tmp_path)
    assert all(way.rollouts for way in record.ways)


def test_states_of_another_form_are_no_layers(synthetic_model: Path, tmp_path: Path) -> None:
    settings = EngineSettings("synthetic", "cpu", "float32", 1, BATCH_ROWS)
    record = probed(SyntheticEngine(settings, synthetic_model), tmp_path)
    assert record.invariant
    assert {way.states for way in record.ways} == {0}
    assert all(way.rollouts for way in record.ways)


def test_rollouts_of_two_tokens_have_no_middle(engine: LayeredEngine, tmp_path: Path) -> None:
    record = probed(engine, tmp_path, max_tokens=2)
    assert [way.way for way in record.ways if way.rollouts] == ["alone", "order", "narrow"]
    assert record.ways[3].reasons["rollouts"] == "no rollout has 3 tokens or more"


def test_the_noise_of_the_synthetic_engine_is_found(synthetic_model: Path, tmp_path: Path) -> None:
    noisy = {**SETTINGS["engine"], "synthetic": {"batch_noise": 1.0, "replay_noise": 0.0}}
    stage = {"settings": {**SETTINGS, "engine": noisy}, "lock": LOCK}
    engines = open_engines(stage, synthetic_model)
    record, _ = probe_engine(stage, engines, questions(), tmp_path)
    assert set(differing(record)) == {"order", "resume", "replay", "refeed"}


def test_questions_are_the_first_ones_and_there_must_be_one(
    engine: LayeredEngine, tmp_path: Path
) -> None:
    one = probed(engine, tmp_path, questions=questions(count=1, rollouts=1))
    assert (one.questions, one.rollouts, one.group) == (1, 16, BATCH_ROWS)
    with pytest.raises(EngineError, match="no question to probe"):
        probed(engine, tmp_path, questions=questions(count=0))


def test_the_requests_are_those_of_the_study() -> None:
    asked = reference_requests(questions(), SETTINGS, ProbeExtent(), context_length=23)
    assert [row["question_id"] for row in asked.group[::6]] == ["q0", "q1", "q2", "q3"]
    assert [row["rollout"] for row in asked.group[:6]] == [0, 1, 2, 3, 4, 5]
    assert {row["max_tokens"] for row in asked.group} == {20}  # what the context has room for
    assert {row["token_ids"][2] for row in asked.group[:2]} == {30, 31}
    assert sum(row["keep_snapshot"] for row in asked.group) == len(asked.compared) == 16
    assert len({row["seed"] for row in asked.group}) == BATCH_ROWS
    assert shuffled(asked.group) != asked.group
    assert {row["question_id"] for row in asked.quarter} == {"q0", "q1", "q2", "q3"}
    assert (len(asked.half), len(asked.quarter)) == (8, 4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("kernels", ["stock", "batch_invariant"])
def test_the_torch_engine(tiny_model: Path, tmp_path: Path, kernels: str, dtype: str) -> None:
    engine = open_engine(EngineSettings("torch", "cpu", dtype, 1, BATCH_ROWS, kernels), tiny_model)
    record = probed(engine, tmp_path)
    found = differing(record)
    assert record.invariant == (kernels == "batch_invariant")
    assert found["refeed"].first_layer is not None
    assert all(way.states == way.rollouts > 0 for way in record.ways)
    if kernels == "stock":
        assert {"alone", "resume"} & set(found)
    else:
        assert set(found) == {"refeed"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_states_are_compared_bit_by_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    one = torch.randn(2, 2, 2, 5, 3).to(dtype)
    other = one.clone()
    other[1, 1, 0, 3, 2] += 1.5
    other[0, 0, 0, 4, 0] = -7.0
    save_file({"a/0": one, "b/0": one[:1].clone()}, tmp_path / "one.safetensors")
    save_file({"x/0": other[:1].clone(), "a/0": other}, tmp_path / "other.safetensors")
    files = [StateFile(tmp_path / f"{name}.safetensors") for name in ("one", "other")]
    first, second, small = files[0].state("a/0"), files[1].state("a/0"), files[0].state("b/0")
    assert first is not None
    assert second is not None
    assert small is not None
    assert first.tokens == 5
    distance = state_distance(first, second, 4)
    assert distance is not None
    assert distance.differs.tolist() == [False, True]
    wanted = (other.float() - one.float()).abs()[1, 1, 0, 3, 2].item()
    assert distance.largest.tolist() == [0.0, wanted]
    whole = state_distance(first, second, 99)
    assert whole is not None
    assert whole.differs.tolist() == [True, True]
    assert state_distance(first, small, 4) is None
    assert files[0].state("c/0") is None
    assert StateFile(tmp_path / "absent.safetensors").state("a/0") is None


@dataclass(frozen=True)
class Laid:
    """A results folder in which the script can run."""

    stage: Path
    questions: Path
    out: Path


@pytest.fixture
def laid(
    synthetic_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Laid]]:
    def lay(kernels: str) -> Laid:
        model, asked = Stage("prepare_model", {"model": {"folder": None}}), Stage("report", {})
        settings = {**SETTINGS, "engine": {**SETTINGS["engine"], "kernels": kernels}}
        upstream = {"prepare_model": model, "prepare_questions": asked}
        stage = Stage("probe_engine", settings, upstream, LOCK)
        folder = tmp_path / "prepare_model" / model.hash / "model"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.symlink_to(synthetic_model)
        write_manifest(folder, model.record, 0.0)
        write_table(questions(), tmp_path / "asked" / "shard-0000.parquet", QUESTIONS)
        out = tmp_path / "probe_engine" / stage.hash / "probe.json"
        write_json(out.with_name("stage.json"), stage.record)
        return Laid(out.with_name("stage.json"), tmp_path / "asked", out)

    monkeypatch.setitem(KINDS, "synthetic", (LayeredEngine.__module__, LayeredEngine.__name__))
    yield lay


def run_script(laid: Laid, monkeypatch: pytest.MonkeyPatch) -> int:
    arguments = ["--stage", laid.stage, "--questions", laid.questions, "--out", laid.out]
    monkeypatch.setattr(sys, "argv", ["probe_engine.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "workflow_scripts" / "probe_engine.py"), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("kernels", ["stock", "batch_invariant"])
def test_the_job_writes_its_record_and_manifest(
    laid: Callable[[str], Laid], monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    place = laid(kernels)
    assert run_script(place, monkeypatch) == 0
    record = read_probe(place.out)
    assert (record.kernels, record.invariant) == (kernels, True)
    assert manifest_path(place.out).exists()
    assert {path.name for path in place.out.parent.iterdir()} == {
        *("probe.json", "probe.manifest.json", "stage.json")
    }


def test_the_job_of_a_broken_promise_fails_in_words_and_writes_nothing(
    laid: Callable[[str], Laid],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil = spoiler(lambda requests, place: len(requests) > 1, 0.125, 1)
    monkeypatch.setattr(LayeredEngine, "spoil", staticmethod(spoil))
    place = laid("batch_invariant")
    assert run_script(place, monkeypatch) == 1
    words = capsys.readouterr().err
    assert "refork: engine.kernels: is 'batch_invariant', but the probe finds otherwise" in words
    assert "Traceback" not in words
    assert all(f"{way} is bit-equal" in words for way in ("order", "narrow", "refeed"))
    assert [path.name for path in place.out.parent.iterdir()] == ["stage.json"]


def test_stock_kernels_may_vary(
    laid: Callable[[str], Laid], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil = spoiler(lambda requests, place: len(requests) > 1, 0.125, 1)
    monkeypatch.setattr(LayeredEngine, "spoil", staticmethod(spoil))
    place = laid("stock")
    assert run_script(place, monkeypatch) == 0
    assert not read_probe(place.out).invariant

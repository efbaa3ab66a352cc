"""`refork operations`: a table, JSON, and what is refused."""

import json

import pytest
import torch

from refork.cli.main import main
from refork.engines.vllm.operations import models, probe

TINY = models.ModelShape("tiny", 64, 4, 2, 32, 96, 300, 1e4)
Told = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe a tiny model on few rows."""
    monkeypatch.setitem(models.MODELS, "tiny", TINY)
    monkeypatch.setitem(probe.ROWS, "cpu", 8)
    monkeypatch.setitem(probe.SEQUENCES, "cpu", 3)


def test_a_table(capsys: Told) -> None:
    assert main(["operations", "--device", "cpu", "--model", "tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("device cpu, hardware ")
    assert "tiny, bfloat16" in lines
    assert "tiny, float32" in lines
    softmax = [line for line in lines if line.startswith("log softmax")]
    assert len(softmax) == 2
    assert softmax[0].split() == [
        *("log", "softmax", "torch", "8", "rows", "100", "%", "100", "%", "100", "%", "none", "0")
    ]
    assert any(line.startswith("absent: vllm flash 3 (attention prefill, ") for line in lines)


def test_as_json(capsys: Told) -> None:
    given = ["--device", "cpu", "--model", "tiny", "--dtype", "float32", "--only", "linear q"]
    assert main(["operations", *given, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["torch"] == torch.__version__
    assert {row["operation"] for row in record["findings"]} == {"linear qkv"}
    assert [row["way"] for row in record["findings"]] == ["again", "order", "1", "2", "4"]
    assert [row["reason"] for row in record["absent"]] == ["a Triton kernel: needs a GPU"]


def test_what_is_refused(capsys: Told) -> None:
    assert main(["operations", "--device", "cpu", "--model", "tinny"]) == 1
    assert "did you mean 'tiny'?" in capsys.readouterr().err
    assert main(["operations", "--device", "cpu", "--model", "tiny", "--only", "linaer"]) == 1
    assert "no operation begins with 'linaer'; there are linear qkv" in capsys.readouterr().err
    assert main(["operations", "--device", "cpu", "--kernels", "batch_invariant"]) == 1
    assert "for GPUs alone" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there(capsys: Told) -> None:
    assert main(["operations", "--device", "cuda"]) == 1
    assert "torch finds no GPU here" in capsys.readouterr().err

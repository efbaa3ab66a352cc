"""Snapshot files: what comes back, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from refork.engines.torch.snapshots import Snapshots, StateKind, write_snapshots
from refork.errors import EngineError, ReforkError

KIND = StateKind(model="abc", dtype="bfloat16", layers=3, heads=2, width=8)


def states(kind: StateKind = KIND) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    dtype = getattr(torch, kind.dtype)
    return {
        f"question/{rollout}": torch.randn(
            (kind.layers, 2, kind.heads, tokens, kind.width), generator=generator
        ).to(dtype)
        for rollout, tokens in ((0, 12), (1, 7), (10, 20))
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "snapshots.safetensors"
    write_snapshots(path, states(), KIND)
    return path


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_states_come_back_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    kind = replace(KIND, dtype=dtype)
    written = states(kind)
    write_snapshots(tmp_path / "file", written, kind)
    with Snapshots(tmp_path / "file", kind) as snapshots:
        for name, state in written.items():
            for tokens in (1, 5, state.shape[3]):
                read = snapshots.load(name, tokens)
                assert read.dtype == state.dtype
                assert torch.equal(read.view(torch.uint8), _bytes(state[:, :, :, :tokens]))


def _bytes(state: torch.Tensor) -> torch.Tensor:
    return state.contiguous().view(torch.uint8)


def test_not_a_number_survives(tmp_path: Path) -> None:
    odd = torch.full((3, 2, 2, 4, 8), float("nan"), dtype=torch.bfloat16)
    odd[0, 0, 0, 0, :2] = torch.tensor([float("inf"), -0.0])
    write_snapshots(tmp_path / "file", {"q/0": odd}, KIND)
    with Snapshots(tmp_path / "file", KIND) as snapshots:
        assert torch.equal(_bytes(snapshots.load("q/0", 4)), _bytes(odd))


def test_files_are_deterministic(path: Path, tmp_path: Path) -> None:
    backwards = dict(reversed(states().items()))
    write_snapshots(tmp_path / "other", backwards, KIND)
    assert (tmp_path / "other").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(KIND, dtype="float32"), "dtype is 'bfloat16', not 'float32'"),
        (replace(KIND, model="xyz"), "model is 'abc', not 'xyz'"),
        (replace(KIND, heads=4, width=4), "heads is 2, not 4; width is 8, not 4"),
    ],
)
def test_another_kind_is_refused(path: Path, other: StateKind, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        Snapshots(path, other)


def test_what_is_absent_is_named(path: Path) -> None:
    with Snapshots(path, KIND) as snapshots:
        with pytest.raises(EngineError, match="no snapshot of rollout question/2"):
            snapshots.load("question/2", 1)
        with pytest.raises(EngineError, match="holds 7 tokens, 8 are asked for"):
            snapshots.load("question/1", 8)


def test_what_is_no_snapshot_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="not a snapshot file"):
        Snapshots(tmp_path / "absent", KIND)
    (tmp_path / "text").write_text("not tensors")
    with pytest.raises(EngineError, match="not a snapshot file"):
        Snapshots(tmp_path / "text", KIND)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ReforkError, match="cannot be written"):
        write_snapshots(tmp_path / "taken", states(), KIND)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]

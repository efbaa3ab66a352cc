"""Snapshot files of batch groups, put together."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from refork.engines.snapshot_files import merge_snapshots
from refork.errors import EngineError

KIND = {"refork": '{"dtype":"bfloat16"}'}


def write(path: Path, kind: dict[str, str] = KIND, **tensors: torch.Tensor) -> Path:
    save_file(tensors, path, metadata=kind)
    return path


def states(count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    return {
        f"q{count}/{index}": torch.randn(2, 2, index + 1, generator=generator).bfloat16()
        for index in range(count)
    }


def test_every_state_is_there_bit_for_bit(tmp_path: Path) -> None:
    parts = [write(tmp_path / f"{count}", KIND, **states(count)) for count in (1, 3)]
    out = tmp_path / "all"
    merge_snapshots([parts[0], tmp_path / "absent", parts[1]], out)
    with safe_open(out, framework="pt") as merged:
        assert merged.metadata() == KIND
        wanted = states(1) | states(3)
        assert sorted(merged.keys()) == sorted(wanted)
        for name, state in wanted.items():
            assert torch.equal(merged.get_tensor(name), state)


def test_the_same_parts_are_the_same_bytes(tmp_path: Path) -> None:
    part = write(tmp_path / "part", KIND, **states(3))
    for name in ("one", "two"):
        merge_snapshots([part], tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_no_parts_make_an_empty_file(tmp_path: Path) -> None:
    merge_snapshots([], tmp_path / "all")
    with safe_open(tmp_path / "all", framework="pt") as merged:
        assert list(merged.keys()) == []


def test_states_of_two_kinds_or_of_one_rollout_are_refused(tmp_path: Path) -> None:
    part = write(tmp_path / "part", KIND, **states(1))
    other = write(tmp_path / "other", {"refork": "{}"}, **states(2))
    with pytest.raises(EngineError, match="of another kind than"):
        merge_snapshots([part, other], tmp_path / "all")
    with pytest.raises(EngineError, match="q1/0 stands twice"):
        merge_snapshots([part, part], tmp_path / "all")
    assert not (tmp_path / "all").exists()

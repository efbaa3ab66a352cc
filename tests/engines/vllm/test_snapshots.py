"""States that vLLM keeps in files and goes on from."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from helpers.engines import VLLM, Subject, make_subject
from helpers.requests import drawn, fresh, remainders, resumed, table
from helpers.vllm_groups import request
from refork.data.schemas import REQUESTS, RESULTS
from refork.data.tables import read_table, write_table
from refork.engines.interface import VllmSettings
from refork.engines.snapshot_files import merge_snapshots
from refork.engines.vllm.options import CONNECTOR, check_version
from refork.engines.vllm.snapshots import check_states, state_kind, write_states
from refork.errors import EngineError, ReforkError

FACTS = {
    **{"engine": "vllm", "vllm": "0.32.0", "dtype": "bfloat16", "attention": "FLASH_ATTN"},
    **{"block_size": "4", "weights": "abc", "cpu_capability": "AVX2"},
}
KIND = state_kind(FACTS, "cuda")
BLOCK = 4


def on_vllm(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that runs vLLM."""
    for mark in VLLM:
        test = mark(test)
    return test


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with a state of three blocks."""
    path = tmp_path / "snapshots.safetensors"
    write_states(path, {"bees/0": torch.zeros(2, 3, 2 * BLOCK * 8)}, KIND)
    return path


def test_a_state_that_is_held_may_be_gone_on_from(path: Path) -> None:
    check_states(path, [request(5), request(12)], KIND, BLOCK)


@pytest.mark.parametrize(
    ("rollout", "tokens", "words"),
    [(7, 5, "no snapshot of rollout bees/7"), (0, 13, "holds 3 blocks of 4 tokens, 13 tokens are")],
)
def test_a_state_that_is_not_held_is_refused(
    path: Path, rollout: int, tokens: int, words: str
) -> None:
    with pytest.raises(EngineError, match=words):
        check_states(path, [request(tokens, rollout=rollout)], KIND, BLOCK)


@pytest.mark.parametrize("name", ["vllm", "dtype", "attention", "block_size", "weights"])
def test_states_of_another_kind_are_refused(path: Path, name: str) -> None:
    other = state_kind({**FACTS, name: "another"}, "cuda")
    with pytest.raises(EngineError, match=f"{name} is '{FACTS[name]}', not 'another'"):
        check_states(path, [request(5)], other, BLOCK)


def test_on_the_cpu_the_instruction_set_is_part_of_the_kind(path: Path) -> None:
    with pytest.raises(EngineError, match="device is 'cuda', not 'cpu'; layout is None, not 'AVX2"):
        check_states(path, [request(5)], state_kind(FACTS, "cpu"), BLOCK)


def test_what_is_no_snapshot_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not tensors")
    for name in ("text", "absent"):
        with pytest.raises(EngineError, match="not a snapshot file"):
            check_states(tmp_path / name, [request(5)], KIND, BLOCK)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ReforkError, match="cannot be written"):
        write_states(tmp_path / "taken", {}, KIND)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.fixture(scope="module")
def keeping(wide_model: Path) -> Subject:
    """Return an engine that keeps snapshots."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = VllmSettings(cache_gib=0.25, snapshots=True)
    return make_subject("vllm", "float32", wide_model, 0.0, device=device, vllm=settings)


@pytest.fixture(scope="module")
def kept(
    keeping: Subject, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pa.Table, pa.Table, Path]:
    """Return base rollouts of three batch groups, and the file of all their snapshots."""
    folder = tmp_path_factory.mktemp("kept")
    rows = fresh(keeping.prompts, rollouts=2, max_tokens=70, keep_snapshot=True)
    groups = [table(rows.slice(2 * number, 2).to_pylist()) for number in range(3)]
    parts = [folder / str(number) for number in range(3)]
    results = [
        keeping.engine.run_group(group, None, part)
        for group, part in zip(groups, parts, strict=True)
    ]
    merge_snapshots(parts, folder / "all")
    return rows, pa.concat_tables(results), folder / "all"


@on_vllm
def test_a_rollout_is_gone_on_from_at_any_token(
    keeping: Subject, kept: tuple[pa.Table, pa.Table, Path]
) -> None:
    requests, results, path = kept
    half = resumed(requests, results, "snapshot").to_pylist()
    long = max(half, key=lambda row: len(row["token_ids"]))
    whole, prompt = len(long["token_ids"]), long["prompt_length"]
    again = table(
        [
            {
                **long,
                "token_ids": long["token_ids"][:cut],
                "logprobs": long["logprobs"][: cut - prompt],
                "forced_token": [*long["token_ids"], long["forced_token"]][cut],
                "max_tokens": long["max_tokens"] + whole - cut,
            }
            for cut in (*range(prompt, whole + 1), whole)
        ]
    )
    found = keeping.engine.run_group(again, path, None)
    assert drawn(found) == remainders(requests, results, again)
    assert found["cached_tokens"].to_pylist() == [len(row) for row in again["token_ids"]]
    assert set(found["recomputed_tokens"].to_pylist()) == {0}
    assert set(found["fidelity"].to_pylist()) == {0.0}


@on_vllm
def test_numbers_are_those_of_the_snapshot(
    keeping: Subject, kept: tuple[pa.Table, pa.Table, Path], tmp_path: Path
) -> None:
    requests, results, path = kept
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        states = {name: torch.zeros_like(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    save_file(states, tmp_path / "zeros", metadata=metadata)
    again = resumed(requests, results, "snapshot")
    true, zeroed = (
        keeping.engine.run_group(again, one, None)["logprobs"].to_pylist()
        for one in (path, tmp_path / "zeros")
    )
    assert all(one[0] != other[0] for one, other in zip(true, zeroed, strict=True))


@on_vllm
def test_engines_with_and_without_snapshots_work_side_by_side(
    keeping: Subject, kept: tuple[pa.Table, pa.Table, Path], tmp_path: Path
) -> None:
    requests, results, path = kept
    plain = keeping.open(vllm=replace(keeping.settings.vllm, snapshots=False))
    asked = table([{**row, "keep_snapshot": False} for row in requests.to_pylist()])
    snapshot, replay = (resumed(requests, results, one) for one in ("snapshot", "decode_replay"))
    for again in (tmp_path / "once", tmp_path / "twice"):
        assert plain.run_group(asked, None, None)["token_ids"].equals(results["token_ids"])
        found = keeping.engine.run_group(snapshot, path, None)
        assert drawn(found) == remainders(requests, results, snapshot)
        replayed = plain.run_group(replay, None, None)["token_ids"].to_pylist()
        assert replayed == found["token_ids"].to_pylist()
        keeping.engine.run_group(requests, None, again)
    assert (tmp_path / "once").read_bytes() == (tmp_path / "twice").read_bytes()


@on_vllm
def test_a_vllm_without_the_interface_is_said(
    keeping: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm = importlib.import_module("vllm")
    monkeypatch.setitem(sys.modules, CONNECTOR, None)
    with pytest.raises(EngineError, match=r"engine.vllm.snapshots: vllm .* lacks the interface"):
        check_version(vllm, keeping.settings)
    settings = replace(keeping.settings, vllm=replace(keeping.settings.vllm, snapshots=False))
    check_version(vllm, settings)  # who keeps none imports none of it


@on_vllm
def test_another_process_goes_on_from_them(
    keeping: Subject, kept: tuple[pa.Table, pa.Table, Path], tmp_path: Path
) -> None:
    requests, results, path = kept
    again = resumed(requests, results, "snapshot")
    write_table(again, tmp_path / "requests", REQUESTS)
    program = (
        "from pathlib import Path\n"
        "from refork.data.schemas import *\n"
        "from refork.data.tables import *\n"
        "from refork.engines import open_engine\n"
        "from refork.engines.interface import *\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"engine = open_engine({keeping.settings!r}, Path({str(keeping.folder)!r}))\n"
        "requests = read_table(folder / 'requests', REQUESTS)\n"
        f"results = engine.run_group(requests, Path({str(path)!r}), None)\n"
        "write_table(results, folder / 'results', RESULTS)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = read_table(tmp_path / "results", RESULTS)
    assert found.equals(keeping.engine.run_group(again, path, None))
    assert drawn(found) == remainders(requests, results, again)


@on_vllm
def test_snapshots_of_another_model_are_refused(
    keeping: Subject, kept: tuple[pa.Table, pa.Table, Path], tmp_path: Path
) -> None:
    requests, results, path = kept
    with safe_open(path, framework="pt") as file:
        states = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(states, tmp_path / "other", metadata={"refork": '{"weights":"abc"}'})
    with pytest.raises(EngineError, match=r"another kind than this engine's: .*weights is 'abc'"):
        keeping.engine.run_group(resumed(requests, results, "snapshot"), tmp_path / "other", None)

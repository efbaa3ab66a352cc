"""`refork probe`: a study's engine, told in a table, in JSON and in one sentence."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.probed_engine import LayeredEngine
from refork.cli.main import main
from refork.data.probe_record import WAYS
from refork.engines import KINDS
from refork.stages import probe_variant
from refork.study.document import default_yaml

STUDY = """
study: s
questions: {file: q.jsonl, shards: 3}
engine: {kind: synthetic, batch_rows: 16, synthetic: {replay_noise: 0.0, batch_noise: 0.0}}
rollouts: {temperature: 1.0}
variants:
  quiet: {}
  alike: {pivots: {margin: 0.5}}
  noisy: {engine: {synthetic: {batch_noise: 1.0}}}
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A study file in a folder with a default config and two questions."""
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/default.yaml").write_text(default_yaml())
    Path("s.yaml").write_text(STUDY)
    lines = [{"id": name, "question": f"{name}?", "answer": "2"} for name in "ab"]
    Path("q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "s.yaml"


Told = pytest.CaptureFixture[str]


def test_a_table_and_a_sentence_a_variant(study: str, capsys: Told) -> None:
    assert main(["probe", study]) == 0
    told = capsys.readouterr()
    for name in ("quiet", "alike", "noisy"):
        assert f"Variant {name}, kernels stock: 16 rollouts of 2 questions" in told.out
    assert told.out.count("Equal here, though stock kernels promise nothing: alone") == 2
    assert told.out.count("Not invariant: order, resume and replay not bit-equal") == 1
    assert told.out.count("prefix decoded again") == 3
    # Variants that share their rollouts share the probe.
    assert [line for line in told.err.splitlines() if "probing" in line] == [
        "refork: probing quiet",
        "refork: probing noisy",
    ]


def test_as_json(study: str, capsys: Told) -> None:
    assert main(["probe", study, "--json", "--variant", "noisy"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert list(records) == ["noisy"]
    record = records["noisy"]
    assert list(record) == [
        *("kernels", "questions", "rollouts", "tokens", "group", "batch_rows", "ways", "invariant")
    ]
    assert [way["way"] for way in record["ways"]] == list(WAYS)
    assert record["invariant"] is False
    order = record["ways"][1]
    assert order["equal_tokens"] < order["tokens"]
    assert (order["first_layer"], order["states"]) == (None, 0)
    assert order["reasons"]["first_layer"] == "the engine keeps no keys and values by layer"


def test_the_exit_status_tells_of_invariance_where_asked(study: str, capsys: Told) -> None:
    assert main(["probe", study, "--variant", "quiet", "--require-invariant"]) == 0
    assert main(["probe", study, "--variant", "noisy", "--require-invariant"]) == 1
    assert main(["probe", study, "--require-invariant"]) == 1


def test_gpus_are_leased_for_it(study: str, monkeypatch: pytest.MonkeyPatch, capsys: Told) -> None:
    leased: list[tuple[int, str]] = []
    monkeypatch.setattr(probe_variant, "lease_gpus", lambda *asked: leased.append(asked))
    with Path(study).open("a") as file:
        file.write("resources: {sample_rollouts: {gpu: 2}}\n")
    assert main(["probe", study, "--variant", "quiet"]) == 0
    assert leased == [(2, "any")]


def test_model_and_questions_are_made_once(study: str, capsys: Told) -> None:
    assert main(["probe", study, "--variant", "quiet"]) == 0
    assert "preparing the model" in capsys.readouterr().err
    made = {path: path.stat().st_mtime_ns for path in Path("results").rglob("*.parquet")}
    assert len(made) == 3  # a shard each
    assert main(["probe", study]) == 0
    assert "preparing" not in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in Path("results").rglob("*.parquet")} == made
    assert not [path for path in Path("results").iterdir() if path.name.startswith("tmp")]


def test_an_unknown_variant_is_said(study: str, capsys: Told) -> None:
    assert main(["probe", study, "--variant", "quite"]) == 1
    assert "did you mean 'quiet'?" in capsys.readouterr().err


def test_an_engine_of_its_own_environment_is_probed_there(
    study: str, capsys: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> called\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    main(["probe", study, "--json"])
    here = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("COLUMNS", "80")
    own = STUDY.replace("kind: synthetic,", f"kind: synthetic, python: {python},")
    Path(study).write_text(own.replace("study: s\n", "study: own\n"))
    assert main(["probe", study, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == here
    calls = Path("called").read_text().splitlines()
    assert [call.split()[1] for call in calls] == ["refork.engines.describe"] + 2 * [
        "refork.cli.main"
    ]
    python.write_text("#!/bin/sh\nexit 1\n")
    assert main(["probe", study]) == 1
    assert f"variant quiet: the probe failed in {python}" in capsys.readouterr().err


def test_layers_are_named_in_the_table(
    study: str, capsys: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(requests: Any, results: Any, states: Any) -> None:
        if len(requests) == 1:
            for state in states.values():
                state[2, 1, 0, 0] += 0.25

    monkeypatch.setitem(KINDS, "synthetic", (LayeredEngine.__module__, LayeredEngine.__name__))
    monkeypatch.setattr(LayeredEngine, "spoil", staticmethod(spoil))
    assert main(["probe", study, "--variant", "quiet"]) == 0
    table = capsys.readouterr().out
    assert "2 (by 0.25)" in table
    assert "none" in table
    assert "Not invariant: alone not bit-equal to a batch of 16" in table

"""`refork lock`, `plan` and `schema`."""

import json
from pathlib import Path

import pytest

from helpers.repository import ROOT
from refork.cli.main import main
from refork.study.document import default_yaml, json_schema

STUDY = """
study: s
questions: {file: q.jsonl, shards: 2}
engine: {kind: synthetic}
variants:
  a: {}
  b: {pivots: {margin: 0.5}}
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A study file in a folder with a default config and one question."""
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/default.yaml").write_text(default_yaml())
    Path("config/s.yaml").write_text(STUDY)
    Path("q.jsonl").write_text('{"id": "a", "question": "1 + 1?", "answer": "2"}\n')
    return "config/s.yaml"


def test_lock_prints_where_the_lock_lies(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", study]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_plan_has_a_row_a_stage(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", study, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    shared = next(row for row in rows if row["stage"] == "sample_rollouts")
    assert shared["variants"] == ["a", "b"]
    assert (shared["cached"], shared["jobs"], shared["requests"]) == (False, 2, 8)
    assert [row["stage"] for row in rows].count("resample refeed") == 2
    assert rows[-1]["stage"] == "report"


def test_plan_as_a_table_keeps_hashes_whole(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", study, "--json"])
    hashes = [row["hash"] for row in json.loads(capsys.readouterr().out)]
    assert main(["plan", study]) == 0
    table = capsys.readouterr().out
    assert all(digest in table for digest in hashes)
    # 8 rollouts of 512 tokens; 80 arms of 4 x 400 + 32 tokens in 3 passes of 2 variants.
    assert "to run: 27 jobs, at most 787,456 generated tokens" in table


def test_a_wrong_config_is_said_without_traceback(
    study: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(study).write_text(STUDY.replace("shards", "shard"))
    assert main(["plan", study]) == 1
    assert "questions.shard: no such key; did you mean `shards`?" in capsys.readouterr().err
    assert main(["lock", "absent.yaml"]) == 1
    assert "absent.yaml: no such config file" in capsys.readouterr().err


def test_schema_prints_and_writes(study: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == json_schema()
    Path("config/README.md").write_text((ROOT / "config" / "README.md").read_text())
    assert main(["schema", "--write", "--folder", "absent"]) == 1
    assert "absent is no config folder" in capsys.readouterr().err
    assert not Path("absent").exists()
    Path("config/default.yaml").write_text("")
    assert main(["schema", "--write"]) == 0
    assert Path("config/default.yaml").read_text() == default_yaml()
    assert Path("config/schema.json").read_text() == json_schema()

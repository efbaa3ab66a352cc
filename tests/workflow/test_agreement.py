"""The agreement command on a study that has run."""

import json
import subprocess
from typing import Any

import pyarrow.parquet as pq
import pytest

from helpers.project import Project
from helpers.repository import BIN

pytestmark = pytest.mark.workflow


def refork(study: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "refork"), "agreement", *arguments],
        cwd=study.folder,
        capture_output=True,
        text=True,
        check=False,
    )


def tokens(study: Project, name: str) -> dict[tuple[Any, ...], list[int]]:
    files = sorted((study.results / "small" / "base" / "resample" / name).rglob("*.parquet"))
    return {
        (row["question_id"], row["rollout"], row["position"], row["arm"], row["draw"]): row[
            "token_ids"
        ]
        for file in files
        for row in pq.ParquetFile(file).read().to_pylist()
        if row["draw"] is not None
    }


def test_json_counts_what_the_tables_hold(finished: Project) -> None:
    done = refork(finished, "results/small", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["study"] == "small"
    assert [row["pass"] for row in record["passes"]] == ["replica", "refeed"]
    exact = tokens(finished, "exact")
    assert exact
    for row in record["passes"]:
        other = tokens(finished, row["pass"])
        assert row["same_tokens"]["whole"] == len(exact)
        assert row["same_tokens"]["part"] == sum(exact[draw] == other[draw] for draw in exact)
    refeed = record["passes"][1]["same_tokens"]
    assert 0 <= refeed["low"] < refeed["value"] < refeed["high"] <= 1


def test_markdown_and_the_terminal_hold_the_same_figures(finished: Project) -> None:
    text = refork(finished, "results/small", "--markdown").stdout
    cells = text.splitlines()[4].strip("| ").split(" | ")
    shown = refork(finished, "results/small").stdout
    assert cells[0] == "base"
    assert all(cell in shown for cell in cells)


def test_a_study_that_has_not_run_is_refused_in_words(finished: Project) -> None:
    for folder, words in (("results", "not the folder of a study"), ("absent", "no such folder")):
        done = refork(finished, folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"refork: {folder}: {words}")

"""The importer of thaw's records."""

import json
from pathlib import Path
from typing import Any

import pytest

from refork.data.schemas import CREDITS
from refork.data.thaw import read_thaw
from refork.errors import ReforkError

RECORD: dict[str, Any] = {
    "problem_id": 3,
    "rollout": 0,
    "abs_pos": 145,
    "gen_index": 29,
    "margin": 0.5,
    "A_exact1": 0.25,
    "A_exact2": 0.0,
    "A_refeed": -0.5,
    "cache_ok_exact1": True,
    "cache_ok_exact2": False,
    "greedy_divergence_exact2": False,
    "greedy_first_logprob_delta_exact2": 0.0,
    "greedy_divergence_refeed": True,
    "greedy_first_logprob_delta_refeed": 0.125,
}


def write(folder: Path, *records: dict[str, Any], name: str = "run.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"final": True, "pivots": records}))
    return path


def changed(**values: Any) -> dict[str, Any]:
    return RECORD | values


def test_one_row_a_pivot_and_pass(tmp_path: Path) -> None:
    table = read_thaw([write(tmp_path, RECORD)])
    assert table.schema == CREDITS
    rows = table.to_pylist()
    assert [row["pass"] for row in rows] == ["exact", "replica", "refeed"]
    assert [row["credit"] for row in rows] == [0.25, 0.0, -0.5]
    assert [row["cached"] for row in rows] == [True, False, None]
    assert [row["probe_diverged"] for row in rows] == [None, False, True]
    assert [row["probe_delta"] for row in rows] == [None, 0.0, 0.125]
    assert {(row["question_id"], row["rollout"], row["position"]) for row in rows} == {
        ("3", 0, 145)
    }
    assert {row["draws_actual"] for row in rows} == {None}


def test_of_the_same_pivot_the_first_wins(tmp_path: Path) -> None:
    one = write(tmp_path, RECORD, changed(A_exact1=1.0), name="one.json")
    two = write(tmp_path, changed(A_exact1=-1.0), changed(abs_pos=7), name="two.json")
    exact = [row for row in read_thaw([one, two]).to_pylist() if row["pass"] == "exact"]
    assert [(row["position"], row["credit"]) for row in exact] == [(145, 0.25), (7, 0.25)]


def test_records_without_instruments(tmp_path: Path) -> None:
    bare = {key: RECORD[key] for key in RECORD if not key.startswith(("cache_ok", "greedy"))}
    table = read_thaw([write(tmp_path, bare)])
    for name in ("cached", "probe_diverged", "probe_delta"):
        assert table.column(name).null_count == 3


def test_a_run_without_pivots_is_legal(tmp_path: Path) -> None:
    assert read_thaw([write(tmp_path)]).num_rows == 0


@pytest.mark.parametrize(
    ("record", "place"),
    [
        ({key: RECORD[key] for key in RECORD if key != "A_refeed"}, "A_refeed: Field required"),
        (changed(A_exact2="0.5"), "A_exact2: Input should be a valid number"),
        (changed(A_exact1=1.5), "A_exact1: Input should be less than or equal to 1"),
        (changed(A_exact1=float("nan")), "A_exact1: Input should be a finite number"),
        (changed(abs_pos=-1), "abs_pos: Input should be greater than or equal to 0"),
        (changed(rollout=2**31), "rollout: Input should be less than"),
        (changed(margin=None), "margin: Input should be a valid number"),
        (changed(problem_id=None), "problem_id"),
    ],
)
def test_a_malformed_record_is_named(tmp_path: Path, record: dict[str, Any], place: str) -> None:
    path = write(tmp_path, RECORD, record)
    with pytest.raises(ReforkError) as caught:
        read_thaw([path])
    assert f"{path}: pivots[1].{place}" in str(caught.value)


def test_only_the_first_errors_are_shown(tmp_path: Path) -> None:
    path = write(tmp_path, *[changed(margin=-1.0)] * 30)
    with pytest.raises(ReforkError) as caught:
        read_thaw([path])
    lines = str(caught.value).splitlines()
    assert lines[0] == "30 errors"
    assert len(lines) == 22
    assert lines[-1].strip() == "… and 10 more"


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "Invalid JSON"), ("[]", "should be an object"), ("{}", "pivots: Field required")],
)
def test_a_file_that_is_no_run(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(ReforkError, match=words):
        read_thaw([path])


def test_an_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match=r"absent\.json: cannot be read"):
        read_thaw([tmp_path / "absent.json"])

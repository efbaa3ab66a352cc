"""`refork power` over small stores."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.repository import BIN, ROOT
from helpers.stores import made_store
from refork.cli.main import main
from refork.data.store import write_store

CELL = {
    *("track", "stride", "samples", "estimator", "tvd", "tvd_jump_0.10", "tvd_jump_0.15"),
    *("tvd_jump_0.20", "tvd_flat_0.10", "l2", "ess", "loglik", "seconds"),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three questions of one track, one of another."""
    folder = tmp_path_factory.mktemp("stores")
    for row in range(3):
        write_store(made_store(row), folder / "made" / f"row{row:03d}.json.gz")
    write_store(made_store(0, track="other"), folder / "other" / "row000.json.gz")
    return folder


def power(capsys: pytest.CaptureFixture[str], *arguments: Any) -> dict[str, Any]:
    assert main(["power", *map(str, arguments), "--json"]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def test_one_cell_a_track_setting_and_estimator(
    stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = power(
        capsys, stores, "--estimators", "raw,segment", "--samples", "5,10", "--strides", "1,4"
    )
    keys = [
        (cell["track"], cell["stride"], cell["samples"], cell["estimator"])
        for cell in record["cells"]
    ]
    assert keys == [
        (track, stride, samples, name)
        for track in ("made", "other")
        for stride in (1, 4)
        for samples in (5, 10)
        for name in ("raw", "segment")
    ]
    assert all(set(cell) == CELL for cell in record["cells"])
    assert record["questions"] == {"made": 3, "other": 1}
    assert record["replicates"] == 2
    assert [one["estimator"] for one in record["paired"]] == ["segment"] * 8
    assert {one["against"] for one in record["paired"]} == {"raw"}


def test_paired_differences_are_those_of_the_cells(
    stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = power(
        capsys, stores / "made", "--estimators", "raw,kernel:bandwidth=4", "--samples", 5
    )
    raw, kernel = record["cells"]
    difference = record["paired"][0]["tvd"]
    assert difference["mean"] == pytest.approx(kernel["tvd"] - raw["tvd"])
    assert difference["low"] < difference["mean"] < difference["high"]
    assert difference["questions"] == 3


def test_what_does_not_exist_is_null_with_a_reason(
    stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = power(capsys, stores / "other", "--estimators", "raw,segment", "--samples", 5)
    assert record["paired"][0]["tvd"]["low"] is None
    assert "one question alone" in record["reasons"]["paired[0].tvd.low"]
    nulls = [path for cell in record["cells"] for path, value in cell.items() if value is None]
    assert len(nulls) == len([path for path in record["reasons"] if path.startswith("cells")])


def test_the_same_stores_give_the_same_record(
    stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (stores, "--estimators", "raw,full", "--samples", 5)
    one, two = power(capsys, *arguments), power(capsys, *arguments)
    for cell in one["cells"] + two["cells"]:
        assert cell.pop("seconds") >= 0
    assert one == two


def test_the_noise_law_stands_beside(stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    law = power(capsys, stores, "--estimators", "raw", "--samples", 5)["noise_law"]["made"]
    assert law["samples"] == [5, 10, 20]
    assert -0.8 < law["slope"]["value"] < -0.2
    assert [ratio["low"] <= ratio["value"] <= ratio["high"] for ratio in law["ratio"]] == [True] * 3


def test_draws_too_few_for_the_folds_are_said(
    stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["power", str(stores / "made"), "--estimators=full,full:penalty=4:bandwidth=8"]
    assert main([*arguments, "--samples=3", "--json"]) == 0
    chosen, given = json.loads(capsys.readouterr().out)["selection"]
    words = "3-fold cross-validation, not 5-fold: no position has more than 3 draws"
    assert chosen["fits"] == {words: 6}
    assert given["fits"] == {"given": 6}
    assert main([*arguments, "--samples=3"]) == 0
    assert f"full, 3 draws: {words}" in capsys.readouterr().out


def test_forks_are_scored_where_asked(stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (stores / "made", "--estimators", "segment,forkhmm", "--samples", 10)
    without = power(capsys, *arguments)
    assert (without["forks"], without["calibration"], without["coverage"]) == ([], [], [])
    record = power(capsys, *arguments, "--forks")
    assert {one["estimator"] for one in record["forks"]} == {"segment", "forkhmm"}
    [fork] = [
        one
        for one in record["forks"]
        if (one["estimator"], one["epsilon"], one["within"]) == ("forkhmm", 0.2, 2)
    ]
    assert fork["jumps"] >= 6  # one of each question, in two replicates
    assert fork["recall"] > 0.5
    assert fork["precision"] > 0.5
    assert {one["estimator"] for one in record["calibration"]} == {"forkhmm"}
    steps = sum(one["steps"] for one in record["calibration"][0]["bins"])
    assert steps == 3 * 2 * 11
    assert [one["nominal"] for one in record["coverage"]] == [0.5, 0.8, 0.9]
    for one, other in zip(without["cells"], record["cells"], strict=True):
        assert one["tvd"] == other["tvd"]
    assert main(["power", *map(str, arguments), "--forks"]) == 0
    assert "Coverage of intervals" in capsys.readouterr().out


def test_progress_goes_to_stderr_and_a_table_to_stdout(
    stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["power", str(stores), "--estimators", "raw,segment", "--samples", "5"]) == 0
    captured = capsys.readouterr()
    assert "4/4" in captured.err
    assert "segment" in captured.out
    assert "Δ TVD to raw" in captured.out


def test_the_command_of_the_page(tmp_path: Path) -> None:
    write_store(made_store(draws=60), tmp_path / "made" / "row000.json.gz")
    page = (ROOT / "docs" / "curves.md").read_text()
    [command] = re.findall(r"^\$ \.venv/bin/refork (power .*)$", page, re.MULTILINE)
    words = command.replace("STORES", "made").split()
    done = subprocess.run(
        [BIN / "refork", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "forkhmm" in done.stdout


WRONG: list[tuple[list[str], str]] = [
    (["--estimators", "ful"], "no estimator 'ful'; allowed: .* did you mean 'full'"),
    (["--estimators", "raw,raw"], "'raw' is there twice"),
    (["--estimators", "full:penalti=3"], "did you mean 'penalty'"),
    (["--estimators", "full:penalty"], "full:penalty: a value is missing"),
    (["--samples", "21"], "records 40 draws a position, and half of them judge .* at most 20"),
    (["--samples", "20", "--replicates", "3"], "blocks of 20 draws are disjoint, .* at most 2"),
    (["--samples", "0"], "--samples '0': a whole number from 1 is wanted"),
    (["--samples", "5,five"], "--samples 'five': a whole number from 1"),
    (["--samples", "5,5"], "a number is there twice"),
    (["--strides", "0"], "--strides '0': a whole number from 1 is wanted"),
    (["--strides", "12"], "leaves one of the 12 positions of .* at most 11"),
    (["--replicates", "-1"], "--replicates '-1': a whole number from 1"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_bad_arguments_are_said_in_words(
    arguments: list[str], words: str, stores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Joined by an equals sign, for a value may begin with a minus.
    options = map("=".join, zip(arguments[::2], arguments[1::2], strict=True))
    assert main(["power", str(stores), "--estimators=raw", "--samples=5", *options]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(words, captured.err)


def test_folders_without_stores_and_broken_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["power", str(tmp_path)]) == 1
    assert "holds no store (*.json.gz)" in capsys.readouterr().err
    (tmp_path / "row.json.gz").write_bytes(gzip.compress(b'{"s": 0}'))
    assert main(["power", str(tmp_path)]) == 1
    assert "row.json.gz: s: Input should be greater" in capsys.readouterr().err
    (tmp_path / "other.json.gz").write_bytes(b"no gzip")
    assert main(["power", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "other.json.gz: not a whole gzip file" in told
    assert "row.json.gz: " in told


def test_a_question_that_is_there_twice_is_refused(
    stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_store(made_store(1), tmp_path / "again.json.gz")
    assert main(["power", str(stores), str(tmp_path), "--samples=5"]) == 1
    assert "question 1 of made again" in capsys.readouterr().err

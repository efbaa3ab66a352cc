"""The noise command."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from refork.cli.main import main
from refork.data.files import write_json
from refork.data.schemas import CREDITS
from refork.data.tables import write_table

PASSES = ("exact", "replica", "refeed")
KEYS = {
    "n_pivots",
    "n_problems",
    "eligible",
    "passes",
    "refeed",
    "replica",
    "excess_pp",
    "clustered_mean",
    "clustered_t",
    "mcnemar_z",
    "bias",
    "exact_nonzero",
    "jaccard",
    "eligibility_sources",
    "margin_buckets",
    "probes",
}


def credits(*values: tuple[float, float, float], question: str = "q") -> pa.Table:
    """Pivots of one question, given as their credits in the three passes."""
    key = {"question_id": question, "rollout": 0, "margin": 0.5}
    rows = [
        key | {"position": position, "pass": name, "credit": triple[i]}
        for i, name in enumerate(PASSES)
        for position, triple in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, CREDITS)


def write(folder: Path, table: pa.Table) -> Path:
    path = folder / "credits.parquet"
    write_table(table, path, CREDITS)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Lay out a study of two variants."""
    write(tmp_path / "fp32" / "measure_noise", credits((0.5, 0.5, 0.5)))
    write(tmp_path / "stock" / "measure_noise", credits((0.5, 0.5, 0.0), (0.25, 0.25, -0.25)))
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert main(["noise", *map(str, arguments), "--json"]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["noise", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_every_way_to_name_the_credits(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variant = study / "stock"
    stage = variant / "measure_noise"
    records = [
        printed(capsys, variant),
        printed(capsys, stage),
        printed(capsys, stage / "credits.parquet"),
        printed(capsys, study, "--variant", "stock"),
    ]
    assert all(record == records[0] for record in records)
    assert set(records[0]) >= KEYS
    assert records[0]["refeed"]["flips"] == 2
    assert records[0]["reasons"]["clustered_t"].startswith("one of the problems")


def test_the_first_variant_is_chosen_aloud(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["noise", str(study), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["n_pivots"] == 1
    assert captured.err == "refork: variant fp32; for another add --variant: stock\n"


def test_the_first_variant_is_the_studys_first(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = study / "cache" / "report.html"
    write_json(
        report.with_name("stage.json"), {"settings": {"variants": {"stock": {}, "fp32": {}}}}
    )
    (study / "report.html").symlink_to(report)
    assert main(["noise", str(study), "--json"]) == 0
    assert capsys.readouterr().err == "refork: variant stock; for another add --variant: fp32\n"


def test_several_files_are_pooled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write(tmp_path / "one", credits((0.5, 0.5, 0.0)))
    two = write(tmp_path / "two", credits((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
    record = printed(capsys, one, two)
    assert (record["n_pivots"], record["refeed"]["flips"]) == (2, 1)


def test_passes_and_thresholds_of_the_command_line(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--treatment", "replica", "--floor", "refeed", "--critical", "0.25"]
    record = printed(capsys, study / "stock", *options, "--margin-split", "0.7")
    assert record["excess_pp"] == -100.0
    assert set(record["jaccard"]) == {"0.25"}
    assert set(record["margin_buckets"]) == {"margin_lt_0.7", "margin_ge_0.7"}


def test_thresholds_and_passes_of_the_study(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = {
        "comparisons": [{"treatment": "replica", "floor": "refeed"}],
        "critical": [0.3],
        "margin_split": 0.2,
    }
    stage = study / "stock" / "measure_noise"
    write_json(stage / "stage.json", {"settings": {"noise": noise, "passes": list(PASSES)}})
    write(stage, credits((0.5, 0.5, 0.0)).take(pa.array([2, 1, 0])))
    record = printed(capsys, study / "stock")
    assert {name: facts["role"] for name, facts in record["passes"].items()} == {
        "exact": "reference",
        "refeed": "floor",
        "replica": "treatment",
    }
    assert set(record["jaccard"]) == {"0.3"}
    assert "margin_lt_0.2" in record["margin_buckets"]


def test_records_of_thaw_are_measured(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [shared / "data" / "replay-noise" / f"{name}.json" for name in ("primary", "screened")]
    record = printed(capsys, *files, "--format", "thaw")
    assert (record["n_pivots"], record["eligible"], record["refeed"]["flips"]) == (1567, 636, 215)
    assert record["clustered_t"] == pytest.approx(5.513, abs=5e-4)


def test_a_readable_table(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["noise", str(study / "stock")]) == 0
    out = capsys.readouterr().out
    assert "2 pivots of 1 problems, 2 eligible; reference: exact" in out
    assert "replica (floor)" in out
    assert "clustered_t: one of the problems" in out
    assert "excess by problem (points)" in out
    assert "flip rate, margin < 0.3 nat" in out


def test_without_pivots_quantities_are_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = printed(capsys, write(tmp_path, CREDITS.empty_table()))
    assert record["excess_pp"] is None
    assert record["reasons"]["excess_pp"] == "no eligible pivots"


def test_bad_input_in_words(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = study / "broken.parquet"
    broken.write_bytes(b"PAR1")
    thaw = study / "run.json"
    thaw.write_text("{}")
    (study / "empty").mkdir()
    stock = study / "stock"
    for arguments, words in (
        ([study / "absent.parquet"], "absent.parquet: no such file"),
        ([broken], "broken.parquet: not a whole Parquet file"),
        ([thaw], "run.json: not Parquet; for records of thaw add --format thaw"),
        ([thaw, "--format", "thaw"], "run.json: pivots: Field required"),
        ([study / "empty"], "empty: holds no credits.parquet"),
        ([study, "--variant", "fp16"], "no variant 'fp16'; there are: fp32, stock"),
        ([stock, "--treatment", "shuffled"], "no pass named 'shuffled'; the passes are: exact"),
        ([stock, "--floor", "refeed"], "they must be three passes"),
        ([stock, "--critical", "2"], "--critical 2.0: Input should be less than or equal to 1"),
    ):
        err = refused(capsys, *arguments)
        assert words in err
        assert "Traceback" not in err


def test_a_stage_record_that_is_none(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(study / "stock" / "measure_noise" / "stage.json", {"settings": []})
    assert "stage.json: not the record of a measure_noise stage" in refused(capsys, study / "stock")


@pytest.mark.parametrize("arguments", [[], ["nose"], ["--", "noise"], ["noise"]])
def test_wrong_arguments_are_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: refork" in capsys.readouterr().err


def test_slow_libraries_stay_out() -> None:
    slow = ("torch", "transformers", "datasets", "seaborn", "scipy", "snakemake", "math_verify")
    code = f"import sys, refork.cli.noise; print(sorted(set({slow!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

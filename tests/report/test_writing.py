"""The files of a report, and the tables and facts in them."""

import io
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from PIL import Image

from refork.errors import ReforkError
from refork.report.figures import draw_figures
from refork.report.provenance import as_yaml, differences, fingerprints, stage_costs
from refork.report.study_data import Decode, Look, StudyData
from refork.report.style import colours_of, png_bytes, svg_bytes
from refork.report.writing import write_report
from refork.study.stage import record_hash


def test_all_files_are_written_and_the_page_last(
    study: StudyData, decode: Decode, tmp_path: Path
) -> None:
    written = write_report(study, Look(), decode, tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    figures = [
        f"figures/{name}.{end}" for name in ("flips", "credit", "margins") for end in ("svg", "png")
    ]
    tables = [
        f"tables/{name}.{end}"
        for name in ("noise", "passes", "stages", "rollout_pivots")
        for end in ("csv", "parquet")
    ]
    assert found == {"report.html", *figures, *tables}
    assert written[-1] == tmp_path / "report.html"
    assert len(written) == len(found)


def test_a_wrong_palette_writes_nothing(study: StudyData, decode: Decode, tmp_path: Path) -> None:
    with pytest.raises(
        ReforkError, match=r"report\.palette: .*`viridi`; did you mean `viridis`.*deep"
    ):
        write_report(study, Look(palette="viridi"), decode, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_tables_say_what_the_page_says(study: StudyData, decode: Decode, tmp_path: Path) -> None:
    write_report(study, Look(), decode, tmp_path)
    for name in ("noise", "passes", "stages", "rollout_pivots"):
        table = pq.read_table(tmp_path / "tables" / f"{name}.parquet")
        csv = pyarrow.csv.read_csv(
            tmp_path / "tables" / f"{name}.csv",
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        )
        assert csv.column_names == table.column_names
        assert csv.num_rows == table.num_rows > 0
    noise = pq.read_table(tmp_path / "tables" / "noise.parquet").to_pylist()
    excess = [row["value"] for row in noise if row["quantity"] == "excess_pp"]
    assert excess == [
        summary.value("excess_pp") for variant in study.variants for summary in variant.comparisons
    ]


def test_a_study_without_pivots_is_written(
    empty_study: StudyData, decode: Decode, tmp_path: Path
) -> None:
    write_report(empty_study, Look(), decode, tmp_path)
    assert pq.read_table(tmp_path / "tables" / "rollout_pivots.parquet").num_rows == 0


@pytest.mark.parametrize("palette", ["colorblind", "viridis"])
def test_figures_are_the_same_bytes_each_time(study: StudyData, palette: str) -> None:
    once, again = (draw_figures(study, colours_of(palette)) for _ in range(2))
    for first, second in zip(once, again, strict=True):
        assert svg_bytes(first.figure) == svg_bytes(second.figure)
        assert png_bytes(first.figure) == png_bytes(second.figure)
    colours = colours_of(palette)
    assert colours.crossing.encode() in svg_bytes(once[0].figure)


def test_a_figure_as_png(study: StudyData) -> None:
    figure = draw_figures(study, colours_of("colorblind"))[0].figure
    with Image.open(io.BytesIO(png_bytes(figure))) as image:
        assert image.size[0] > 1000
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("comparisons", [0, 1, 2])
def test_figures_of_any_number_of_comparisons(study: StudyData, comparisons: int) -> None:
    variants = tuple(
        replace(item, noise={"comparisons": item.noise["comparisons"][:comparisons]})
        for item in study.variants
    )
    drawn = draw_figures(replace(study, variants=variants), colours_of("colorblind"))
    assert all(svg_bytes(item.figure) for item in drawn)


def test_settings_that_differ(study: StudyData) -> None:
    rows = {row.key: row for row in differences(study.settings, study.defaults)}
    assert rows["study"].value == "demo"
    assert rows["questions.file"].usual == "null"
    assert rows["passes"].value.splitlines()[-1] == (
        "- {name: refeed_shuffled, state: prefill, order_seed: 1}"
    )
    assert "engine.dtype" not in rows
    assert [row.key for row in differences(study.variants[1].settings, study.settings)] == [
        "engine.dtype"
    ]
    assert as_yaml([]) == "[]"


def test_costs_and_fingerprints(study: StudyData) -> None:
    costs = stage_costs(study.variants[0])
    assert [cost.stage for cost in costs][:2] == ["sample_rollouts", "resample, exact"]
    assert costs[0].hash == record_hash(study.variants[0].manifests[0]["stage"])
    assert (costs[0].requests, costs[0].tokens, costs[0].replayed) == (1152, 120_000, 4800)
    assert costs[-1].tokens is None
    assert costs[-1].replayed is None
    assert [item.variants for item in fingerprints(study)] == [("stock",), ("fp32",)]
    assert ("torch", "2.11.0") in fingerprints(study)[0].facts

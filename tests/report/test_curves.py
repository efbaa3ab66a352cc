"""Outcome curves in the report: section, forks, figures, tables, what is read."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from helpers.made_curves import HOSTILE_OUTCOME, STEPS_AT, made_curves
from helpers.made_variants import PROMPT, Row, Vocabulary
from helpers.pages import Page
from refork.data.files import write_json
from refork.data.schemas import CURVES, DRAWS, FORKS, GRID, STEPS
from refork.data.tables import write_table
from refork.errors import ReforkError
from refork.report.collect_curves import curve_folders, read_curves
from refork.report.curve_data import CurveData
from refork.report.curve_figures import binned_hazard, number_labels
from refork.report.curve_forks import fork_survival, shown_forks
from refork.report.curve_rows import SHOWN_CURVES, curve_sizes, shown_curves
from refork.report.curve_tables import curve_tables
from refork.report.stage_folders import StageFolders
from refork.report.study_data import Decode, Look, StudyData
from refork.report.writing import write_report
from refork.stats.curves.forks import survival
from refork.study.stage import record_hash

KEY = ("q00", 0)
TABLES = {
    "curves",
    "curve_steps",
    "curve_forks",
    "curve_fork_tokens",
    "curve_survival",
    "curve_rollouts",
    "curve_scores",
}


@pytest.fixture(scope="module")
def curved(study: StudyData, vocabulary: Vocabulary) -> StudyData:
    """Six curves of every token with error bars, and one of every fourth without."""
    first, second = study.variants
    dense = made_curves(first, vocabulary, rollouts=6)
    coarse = made_curves(second, vocabulary, rollouts=1, stride=4, bars=False)
    return replace(study, variants=(replace(first, curves=dense), replace(second, curves=coarse)))


@pytest.fixture(scope="module")
def folder(curved: StudyData, decode: Decode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("curved")
    write_report(curved, Look(), decode, made)
    return made


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "report.html").read_text())


def curves_of(study: StudyData, number: int = 0) -> CurveData:
    curves = study.variants[number].curves
    assert curves is not None
    return curves


def test_the_section_says_what_was_drawn_and_chosen(page: Page) -> None:
    for words in (
        "Outcome curves",
        "6 curves from ",
        "the branch of each drawn by its probability",
        "In use: forkhmm is given by the config.",
        "kernel is given by the config. It has no error bars.",
        "a held-out draw had an outcome that the curve holds impossible",
        "No curve of question q<b>9, rollout 0: 1 position has draws.",
        "Shown are the 4 curves",
        "stock: No fork to the end: 12.5\u202f% at ε = 0.1, 12.5\u202f% at ε = 0.2.",
        "fp32: kernel gives no probability of forks",
    ):
        assert words in page.text


def test_links_lead_somewhere_and_ids_are_unique(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    links = {link[1:] for link in page.values("href") + page.values("xlink:href")}
    assert links <= set(page.ids)
    assert "curve-1-1-fork-1" in links
    assert not page.tags & {"script", "img", "i", "u"}


def test_hostile_text_is_shown_and_not_obeyed(folder: Path, page: Page) -> None:
    html = (folder / "report.html").read_text()
    assert not set(html) & set("\x00\x1b\u202e\u202c\ud800")
    assert "␣<u>or</u>‹U+202E›" in page.text
    assert "<i>x</i>‹U+20" in page.text
    assert HOSTILE_OUTCOME not in html


def test_every_fork_is_marked_with_words(page: Page) -> None:
    titles = [value for value in page.values("title") if value.startswith("Fork ")]
    assert len(titles) == 2 * SHOWN_CURVES + 1
    assert set(titles) <= set(page.values("aria-label"))
    assert all("Probability: " in title for title in titles)


def test_files_are_those_of_before_and_of_curves(folder: Path) -> None:
    figures = {path.name for path in (folder / "figures").iterdir()}
    names = ("curves-stock", "curves-fp32", "fork_survival", "flips", "credit", "margins")
    assert figures == {f"{name}.{end}" for name in names for end in ("svg", "png")}
    for name in TABLES:
        table = pq.read_table(folder / "tables" / f"{name}.parquet")
        csv = pyarrow.csv.read_csv(
            folder / "tables" / f"{name}.csv",
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        )
        assert csv.column_names == table.column_names
        assert csv.num_rows == table.num_rows > 0


def test_without_curves_nothing_is_added(study: StudyData, decode: Decode, tmp_path: Path) -> None:
    assert curve_tables(study, decode) == {}
    write_report(study, Look(), decode, tmp_path)
    html = (tmp_path / "report.html").read_text()
    assert "Outcome curves" not in html
    assert ".fork" not in html
    assert not [path for path in tmp_path.rglob("*") if "curve" in path.name]


def test_tables_hold_all_curves(curved: StudyData, decode: Decode) -> None:
    tables = curve_tables(curved, decode)
    assert set(tables) == TABLES
    both = [curves_of(curved, number) for number in (0, 1)]
    assert tables["curves"].num_rows == sum(one.curves.num_rows for one in both)
    sizes = [size for variant in curved.variants for size in curve_sizes(variant)]
    assert sum(size.draws for size in sizes) == sum(one.draws.num_rows for one in both)
    assert [size.tokens for size in sizes] == [7 * size.draws for size in sizes]
    assert sizes[-1].positions == -(-sizes[-1].length // 4)


def test_forks_that_overlap_are_one_row_at_the_narrowest(curved: StudyData, decode: Decode) -> None:
    first, second = shown_forks(curves_of(curved), KEY, decode)
    start = len(PROMPT)
    assert (first.first, first.last) == (start + STEPS_AT[0], start + STEPS_AT[0] + 1)
    assert first.where == str(start + STEPS_AT[0])
    assert first.probability == {0.1: 0.875, 0.2: 0.75}
    assert first.distance == 0.25
    assert first.change_point is None
    assert (second.probability, second.change_point) == ({}, 0.4375)
    (token,) = first.undecided
    assert (token.position, token.probability) == (first.first, 0.625)
    assert token.others == (("␣<u>or</u>‹U+202E›", 0.375),)


def test_forks_side_by_side_stay_apart(curved: StudyData, decode: Decode) -> None:
    curves = curves_of(curved)
    row: Row = {"question_id": KEY[0], "rollout": KEY[1], "source": "posterior", "epsilon": 0.1}
    row |= {"probability": 0.6, "distance": 0.2}
    rows = [{**row, "first": 4 + i, "last": 5 + i} for i in range(3)]
    beside = replace(curves, forks=pa.Table.from_pylist(rows, schema=FORKS))
    assert [fork.first for fork in shown_forks(beside, KEY, decode)] == [4, 5, 6]


def test_the_text_of_a_rollout_is_cut_and_not_changed(
    curved: StudyData, decode: Decode, vocabulary: Vocabulary
) -> None:
    shown = shown_curves(curved, Look(rollout="q01"), decode)["stock"]
    assert [one.key for one in shown[:2]] == [("q01", 0), ("q01", 1)]
    rollout = curved.variants[0].rollouts.slice(4, 1).to_pylist()[0]
    text = "".join(vocabulary.decode(rollout["token_ids"]))
    joined = "".join(piece.text for piece in shown[0].pieces)
    assert joined.replace("↵\n", "\n") == text


def test_a_coarse_step_is_spread_over_its_tokens(study: StudyData, vocabulary: Vocabulary) -> None:
    coarse = made_curves(study.variants[0], vocabulary, rollouts=1, stride=4)
    pooled = fork_survival(coarse)[0.1]
    np.testing.assert_allclose(pooled.surviving[:8], 1 - np.cumsum([1 / 8] * 4 + [1 / 16] * 4))


def test_curves_are_read_along_the_records(curved: StudyData, tmp_path: Path) -> None:
    curves = curves_of(curved)
    smooth = write_stages(curves, tmp_path)
    found = read_curves(smooth, "mixture")
    for name in ("grid", "draws", "curves", "steps", "forks"):
        assert getattr(found, name).equals(getattr(curves, name))
    assert (found.tuning, found.smoothing) == (curves.tuning, curves.smoothing)
    settings = {"continuations": 20, "draw_block": 10}
    folders = [path.relative_to(tmp_path).parts[0] for path in curve_folders(smooth, settings)]
    assert folders == [
        "lay_grid", "resample", "resample", "grade_outcomes", "estimate_curves",
        "tune_smoothing", "smooth_curves",
    ]  # fmt: skip


def test_a_missing_part_is_named(curved: StudyData, tmp_path: Path) -> None:
    smooth = write_stages(curves_of(curved), tmp_path)
    for path in smooth.folder.glob("*.forks.parquet"):
        path.unlink()
    with pytest.raises(ReforkError, match=r"holds no shard-\*\.forks\.parquet"):
        read_curves(smooth, "mixture")


def write_stages(curves: CurveData, results: Path) -> StageFolders:
    """Write the tables of curves as the stages do, in two shards; return the last stage."""
    upstream: dict[str, tuple[str, ...]] = {
        "lay_grid": (),
        "resample": (),
        "grade_outcomes": (),
        "estimate_curves": ("resample.curve", "grade_outcomes"),
        "tune_smoothing": (),
        "smooth_curves": ("lay_grid", "estimate_curves", "tune_smoothing"),
    }
    digests: dict[str, str] = {}
    for stage, labels in upstream.items():
        above = {label: digests[label.partition(".")[0]] for label in labels}
        record = {"stage": stage, "version": 1, "lock": {}, "upstream": above}
        record["settings"] = {"smoothing": dict(curves.smoothing)}
        digests[stage] = record_hash(record)
        write_json(results / stage / digests[stage] / "stage.json", record)
    tables = [
        ("lay_grid", "", curves.grid, GRID),
        ("estimate_curves", "", curves.draws, DRAWS),
        ("smooth_curves", "", curves.curves, CURVES),
        ("smooth_curves", ".steps", curves.steps, STEPS),
        ("smooth_curves", ".forks", curves.forks, FORKS),
    ]
    for stage, part, table, schema in tables:
        half = table.num_rows // 2
        for shard, rows in enumerate((table.slice(0, half), table.slice(half))):
            path = results / stage / digests[stage] / f"shard-{shard}{part}.parquet"
            write_table(rows, path, schema)
    tuning = results / "tune_smoothing" / digests["tune_smoothing"] / "tuning.json"
    write_json(tuning, curves.tuning.document())
    return StageFolders(results, "smooth_curves", digests["smooth_curves"])


def test_stretches_keep_the_survival() -> None:
    chances = np.random.default_rng(0).dirichlet(np.ones(47))[:-1]
    one = survival([chances])
    edges, hazard = binned_hazard(one)
    assert len(hazard) == len(edges) - 1 == 20
    np.testing.assert_allclose(np.cumprod(1 - hazard), one.surviving[edges[1:] - 1])


@pytest.mark.parametrize(
    ("centres", "labels"),
    [
        ([0.1, 0.5], ["1", "2"]),
        ([0.1, 0.11, 0.5], ["1–2", "3"]),
        ([0.1, 0.11, 0.12, 0.13], ["1–4"]),
        ([], []),
    ],
)
def test_numbers_that_would_touch_are_joined(centres: list[float], labels: list[str]) -> None:
    assert [text for _, text in number_labels(centres)] == labels


def test_labels_of_many_forks_keep_their_distance() -> None:
    centres = sorted(np.random.default_rng(1).random(60).tolist())
    labels = number_labels(centres)
    assert len(labels) > 3
    for (left, one), (right, other) in pairwise(labels):
        assert right - left >= 0.016 * (len(one) + len(other)) / 2

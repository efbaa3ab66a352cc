"""Outcome curves on the published stores, rows 0 to 39, two replicates, against known figures."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from refork.cli.main import main

# Track, stride, samples: TVD of raw curves; TVD of `full`; TVD overall and at jumps > .10 and .15
# of ForkHMM's prototype.
TABLE = {
    ("llama", 1, 5): (0.0959, 0.0277, (0.0244, 0.0531, 0.0544)),
    ("llama", 1, 30): (0.0440, 0.0219, (0.0204, 0.0433, 0.0405)),
    ("llama", 4, 5): (0.0799, 0.0403, (0.0336, 0.0737, 0.0940)),
    ("llama", 4, 30): (0.0382, 0.0260, (0.0236, 0.0521, 0.0537)),
    ("deepseek", 1, 5): (0.1530, 0.0719, (0.0626, 0.0966, 0.0937)),
}
ESTIMATORS = "raw,full,forkhmm"
COLUMNS = ("tvd", "tvd_jump_0.10", "tvd_jump_0.15")
# Of the table's figures; its overall errors of deepseek are of draws that are not quite ours, on
# which the prototype has .0631.
ROUNDING = {"llama": 0.005, "deepseek": 0.01}


@pytest.fixture(scope="module")
def record(shared: Path) -> dict[str, Any]:
    """Measure once what all tests look at."""
    stores = str(shared / "data" / "forking-fast")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["power", stores, "--estimators", ESTIMATORS, "--strides=1,4", "--json"]) == 0
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def cell(record: dict[str, Any], key: tuple[str, int, int], name: str) -> dict[str, Any]:
    """Find one cell."""
    wanted = (*key, name)
    cells: list[dict[str, Any]] = record["cells"]
    [found] = [
        one
        for one in cells
        if (one["track"], one["stride"], one["samples"], one["estimator"]) == wanted
    ]
    return found


@pytest.mark.parametrize("key", TABLE)
def test_raw_errs_as_published(record: dict[str, Any], key: tuple[str, int, int]) -> None:
    assert cell(record, key, "raw")["tvd"] == pytest.approx(TABLE[key][0], rel=ROUNDING[key[0]])


@pytest.mark.parametrize("key", TABLE)
def test_full_errs_as_published(record: dict[str, Any], key: tuple[str, int, int]) -> None:
    assert cell(record, key, "full")["tvd"] == pytest.approx(TABLE[key][1], rel=0.02)


@pytest.mark.parametrize("key", TABLE)
def test_forkhmm_errs_no_more_than_its_prototype(
    record: dict[str, Any], key: tuple[str, int, int]
) -> None:
    found = [cell(record, key, "forkhmm")[column] for column in COLUMNS]
    for error, most in zip(found, TABLE[key][2], strict=True):
        assert error <= most * (1 + ROUNDING[key[0]])


def test_raw_draws_are_worth_themselves_at_every_token(record: dict[str, Any]) -> None:
    for samples in (5, 30):
        assert cell(record, ("llama", 1, samples), "raw")["ess"] == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(("track", "slope"), [("llama", -0.432), ("deepseek", -0.448)])
def test_noise_falls_as_that_of_multinomial_draws(
    record: dict[str, Any], track: str, slope: float
) -> None:
    law = record["noise_law"][track]
    assert law["samples"] == [5, 10, 20, 50, 100]
    assert law["slope"]["value"] == pytest.approx(slope, abs=5e-4)
    assert law["slope"]["low"] < slope < law["slope"]["high"]
    for ratio in law["ratio"]:
        assert 1.0 <= ratio["value"] <= 1.045
        assert ratio["low"] <= ratio["value"] <= ratio["high"]


def test_smoothing_beats_raw_in_every_cell(record: dict[str, Any]) -> None:
    for one in record["paired"]:
        if (one["track"], one["stride"]) in {("llama", 1), ("llama", 4), ("deepseek", 1)}:
            assert one["tvd"]["high"] < 0

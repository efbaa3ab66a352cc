"""`refork noise` on a million pivots."""

import json
import resource
import subprocess
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from helpers.repository import BIN
from refork.data.schemas import CREDITS
from refork.data.tables import write_table

PIVOTS = 1_000_000
PIVOTS_A_ROLLOUT, ROLLOUTS = 5, 8
DRAWS = 8
MOST_SECONDS, MOST_BYTES = 10, 2 * 2**30


def pass_table(name: str, right: np.ndarray, random: np.random.Generator) -> pa.Table:
    """One pass over all pivots; an arm's counts move away from `right` in some of them."""
    number = np.arange(PIVOTS)
    rollout = number // PIVOTS_A_ROLLOUT
    moved = np.where(random.random((2, PIVOTS)) < 0.2, random.integers(0, DRAWS + 1, PIVOTS), right)
    columns = {
        "question_id": [f"question-{i:07d}" for i in rollout // ROLLOUTS],
        "rollout": rollout % ROLLOUTS,
        "position": 100 + number % PIVOTS_A_ROLLOUT * 16,
        "margin": random.random(PIVOTS),
        "pass": [name] * PIVOTS,
        "credit": (moved[0] - moved[1]) / DRAWS,
        "right_actual": moved[0],
        "draws_actual": np.full(PIVOTS, DRAWS),
        "right_alt": moved[1],
        "draws_alt": np.full(PIVOTS, DRAWS),
        "cached": np.full(PIVOTS, True),
        "probe_diverged": random.random(PIVOTS) < 0.2,
        "probe_delta": random.random(PIVOTS),
    }
    return pa.table(columns).cast(CREDITS)


@pytest.fixture(scope="module", params=["in order", "shuffled"])
def million(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write credits of a million pivots in three passes, passes in order or rows at random."""
    random = np.random.default_rng(0)
    right = random.integers(0, DRAWS + 1, (2, PIVOTS))
    names = ("exact", "replica", "refeed")
    table = pa.concat_tables([pass_table(name, right, random) for name in names])
    if request.param == "shuffled":
        table = table.take(pa.array(random.permutation(table.num_rows)))
    path: Path = tmp_path_factory.mktemp("million") / "credits.parquet"
    write_table(table, path, CREDITS)
    return path


@pytest.mark.slow
def test_a_million_pivots(million: Path, benchmark: BenchmarkFixture) -> None:
    command = [str(BIN / "refork"), "noise", str(million), "--json"]
    seconds = []

    def run() -> bytes:
        start = perf_counter()
        done = subprocess.run([*command, "--reference", "exact"], check=True, capture_output=True)
        seconds.append(perf_counter() - start)
        return done.stdout

    printed = benchmark.pedantic(run, rounds=2)  # type: ignore[no-untyped-call]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert json.loads(printed)["n_pivots"] == PIVOTS
    assert min(seconds) <= MOST_SECONDS
    assert peak <= MOST_BYTES

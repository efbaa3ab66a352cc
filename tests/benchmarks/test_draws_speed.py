"""Twelve million continuations into counts, a shard of three million at a time."""

import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from helpers import count_draws
from refork.data.schemas import CONTINUATIONS, GRID, OUTCOMES, TOKENS
from refork.data.tables import write_table

QUESTIONS, POSITIONS, DRAWS, BLOCK = 250, 400, 30, 10
SHARDS = 4
BRANCHES = (0.5, 0.25, 0.25)
MOST_SECONDS, MOST_BYTES = 60, 2 * 2**30


def words(code: NDArray[np.integer[Any]], *names: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(code.astype(np.int32), list(names)).cast(pa.string())


def positions(each: int) -> dict[str, Any]:
    """Give the keys of all positions, `each` rows a position."""
    question = np.repeat(np.arange(QUESTIONS), POSITIONS * each)
    place = np.tile(np.repeat(np.arange(POSITIONS), each), QUESTIONS)
    return {
        "question_id": words(question, *(f"question-{i:05d}" for i in range(QUESTIONS))),
        "rollout": np.zeros(len(question), np.int32),
        "position": 100 + place,
    }


def draws(branch: NDArray[np.int64], first: int) -> dict[str, Any]:
    """Give the keys of the draws from `first` on; `branch` [positions, draws] tells their arms."""
    number, each = branch.shape
    return {
        **positions(each),
        "pass": words(np.zeros(number * each, np.int32), "curve"),
        "arm": words(branch.ravel(), *(f"branch-{i}" for i in range(len(BRANCHES)))),
        "draw": np.tile(np.arange(first, first + each), number),
    }


def block(branch: NDArray[np.int64], first: int) -> pa.Table:
    """Make continuations of three tokens each."""
    n = branch.size
    columns = {
        **draws(branch, first),
        "seed": np.zeros(n, np.uint64),
        "state": words(np.zeros(n, np.int32), "snapshot"),
        "token_ids": pa.ListArray.from_arrays(
            np.arange(n + 1, dtype=np.int32) * 3, pa.array(np.zeros(3 * n, np.int32))
        ),
        "finish_reason": words(np.zeros(n, np.int32), "stop"),
        "first_logprob": pa.nulls(n, pa.float32()),
        "cached_tokens": np.zeros(n, np.int32),
        "recomputed_tokens": np.zeros(n, np.int32),
        "fidelity": pa.nulls(n, pa.float32()),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the grid, the outcomes and the blocks of one shard."""
    folder: Path = tmp_path_factory.mktemp("shard")
    random = np.random.default_rng(0)
    number = QUESTIONS * POSITIONS
    grid = {
        **positions(1),
        "on_grid": np.full(number, True),
        "drawn": np.full(number, True),
        "tokens": pa.array([list(range(len(BRANCHES)))] * number, TOKENS),
        "probabilities": pa.array([list(BRANCHES)] * number, pa.list_(pa.float64())),
        "dropped": np.zeros(number),
    }
    write_table(pa.table(grid), folder / "grid.parquet", GRID)
    branch = random.choice(len(BRANCHES), (number, DRAWS), p=BRANCHES)
    outcome = words(random.integers(0, 4, branch.size), *"ABCD")
    graded = {
        **draws(branch, 0),
        "outcome": outcome,
        "correct": np.full(branch.size, True),
    }
    write_table(pa.table(graded), folder / "outcomes.parquet", OUTCOMES)
    for first in range(0, DRAWS, BLOCK):
        table = block(branch[:, first : first + BLOCK], first)
        write_table(table, folder / f"block-{first:02d}.parquet", CONTINUATIONS)
    return folder


@pytest.mark.slow
def test_twelve_million_continuations(shard: Path) -> None:
    command = [sys.executable, count_draws.__file__, str(shard), str(SHARDS)]
    start = perf_counter()
    done = subprocess.run(command, check=True, capture_output=True)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"{seconds:.1f} s, {peak / 2**30:.2f} GiB")
    assert int(done.stdout) == QUESTIONS * POSITIONS * DRAWS * SHARDS
    assert seconds <= MOST_SECONDS
    assert peak <= MOST_BYTES

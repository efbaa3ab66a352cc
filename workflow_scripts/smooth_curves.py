"""Smooth the outcome curves of one shard and find their forks (rule smooth_curves)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.data.schemas import CURVES, DRAWS, FORKS, GRID, STEPS
from refork.data.tables import read_table, write_table
from refork.data.tuning_record import read_tuning
from refork.errors import exit_in_words
from refork.stages.smooth_curves import smooth_curves
from refork.study.folders import read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--grid", type=Path, required=True, help="grid of the shard")
    parser.add_argument("--draws", type=Path, required=True, help="draws of the shard")
    parser.add_argument("--tuning", type=Path, required=True, help="the estimator's choice")
    parser.add_argument("--out", type=Path, required=True, help="curves that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    grid = read_table(arguments.grid, GRID)
    draws = read_table(arguments.draws, DRAWS)
    smoothed = smooth_curves(stage, grid, draws, read_tuning(arguments.tuning))
    steps, forks = (arguments.out.with_suffix(f".{name}.parquet") for name in ("steps", "forks"))
    write_table(smoothed.steps, steps, STEPS)
    write_table(smoothed.forks, forks, FORKS)
    write_table(smoothed.curves, arguments.out, CURVES)
    facts = {"rows": smoothed.curves.num_rows, "left_out": smoothed.left_out}
    write_manifest(arguments.out, stage, started, facts, files=[steps, forks])
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

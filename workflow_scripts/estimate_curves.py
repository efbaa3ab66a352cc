"""Collect the draws of the outcome curves of one shard (rule estimate_curves)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.data.schemas import CONTINUATIONS, DRAWS, GRID, OUTCOMES
from refork.data.tables import read_table, write_table
from refork.errors import exit_in_words
from refork.stages.estimate_curves import estimate_curves
from refork.study.folders import read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--grid", type=Path, required=True, help="grid of the shard")
    parser.add_argument("--outcomes", type=Path, required=True, help="outcomes of the shard")
    parser.add_argument(
        "--continuations", type=Path, required=True, nargs="+", help="of all draw blocks"
    )
    parser.add_argument("--out", type=Path, required=True, help="draws that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    grid = read_table(arguments.grid, GRID)
    outcomes = read_table(arguments.outcomes, OUTCOMES)
    continuations = (read_table(path, CONTINUATIONS) for path in arguments.continuations)
    draws = estimate_curves(stage, grid, outcomes, continuations)
    write_table(draws, arguments.out, DRAWS)
    write_manifest(arguments.out, stage, started, {"rows": draws.num_rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

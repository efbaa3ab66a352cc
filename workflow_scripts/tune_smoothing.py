"""Score the estimators of outcome curves, and choose one (rule tune_smoothing)."""

import argparse
import time
from pathlib import Path

from refork.data.files import write_json
from refork.data.manifest import write_manifest
from refork.data.schemas import DRAWS, GRID
from refork.data.tables import read_shards
from refork.errors import exit_in_words
from refork.stages.tune_smoothing import tune_smoothing
from refork.study.folders import read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--grid", type=Path, required=True, help="folder of grids")
    parser.add_argument("--draws", type=Path, required=True, help="folder of draws")
    parser.add_argument("--out", type=Path, required=True, help="record that is made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    grid = read_shards([arguments.grid], GRID)
    draws = read_shards([arguments.draws], DRAWS)
    tuning = tune_smoothing(stage, grid, draws)
    write_json(arguments.out, tuning.document())
    write_manifest(arguments.out, stage, started, {"estimator": tuning.estimator})
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

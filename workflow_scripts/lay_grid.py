"""Lay the grids of the outcome curves of one shard (rule lay_grid)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.data.schemas import GRID, QUESTIONS, ROLLOUTS
from refork.data.tables import read_shards, read_table, write_table
from refork.errors import exit_in_words
from refork.stages.lay_grid import lay_grid, questions_with_curves
from refork.study.folders import model_folder, read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--questions", type=Path, required=True, help="folder of all questions")
    parser.add_argument("--rollouts", type=Path, required=True, help="rollouts of the shard")
    parser.add_argument("--out", type=Path, required=True, help="grid that is made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    model = model_folder(arguments.stage, stage)
    chosen = questions_with_curves(stage, read_shards([arguments.questions], QUESTIONS))
    rollouts = read_table(arguments.rollouts, ROLLOUTS)
    grid = lay_grid(stage, rollouts, model, chosen)
    write_table(grid, arguments.out, GRID)
    write_manifest(arguments.out, stage, started, {"rows": grid.num_rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

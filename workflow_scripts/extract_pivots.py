"""Find the pivots of one shard of rollouts (rule extract_pivots)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.data.schemas import PIVOTS, ROLLOUTS
from refork.data.tables import read_table, write_table
from refork.errors import exit_in_words
from refork.stages.extract_pivots import extract_pivots
from refork.study.folders import model_folder, read_record
from refork.tasks.text import special_token_ids


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--rollouts", type=Path, required=True, help="rollouts of the shard")
    parser.add_argument("--out", type=Path, required=True, help="pivots that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    model = model_folder(arguments.stage, stage)
    rollouts = read_table(arguments.rollouts, ROLLOUTS)
    pivots = extract_pivots(stage, rollouts, special_token_ids(model))
    write_table(pivots, arguments.out, PIVOTS)
    write_manifest(arguments.out, stage, started, {"rows": pivots.num_rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

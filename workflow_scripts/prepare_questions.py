"""Load the questions and make their prompts (rule prepare_questions)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.data.schemas import QUESTIONS
from refork.data.tables import write_table
from refork.errors import exit_in_words
from refork.stages.prepare_questions import prepare_questions
from refork.study.folders import model_folder, read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument(
        "--out", type=Path, required=True, nargs="+", help="tables that are made, one a shard"
    )
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    model = model_folder(arguments.stage, stage)
    shards = prepare_questions(stage, model, len(arguments.out))
    for shard, out in zip(shards, arguments.out, strict=True):
        write_table(shard, out, QUESTIONS)
        write_manifest(out, stage, started, {"rows": shard.num_rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

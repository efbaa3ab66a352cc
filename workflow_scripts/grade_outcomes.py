"""Grade the completions of one shard (rule grade_outcomes)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.data.schemas import CONTINUATIONS, OUTCOMES, QUESTIONS, ROLLOUTS
from refork.data.tables import read_table, write_table
from refork.errors import exit_in_words
from refork.stages.forced import read_forced
from refork.stages.grade_outcomes import grade_outcomes
from refork.study.folders import model_folder, read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--questions", type=Path, required=True, help="questions of the shard")
    parser.add_argument("--rollouts", type=Path, required=True, help="rollouts of the shard")
    parser.add_argument("--forced", type=Path, required=True, help="pivots or grid of the shard")
    parser.add_argument(
        "--continuations", type=Path, required=True, nargs="+", help="of all passes and blocks"
    )
    parser.add_argument("--out", type=Path, required=True, help="outcomes that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    model = model_folder(arguments.stage, stage)
    questions = read_table(arguments.questions, QUESTIONS)
    rollouts = read_table(arguments.rollouts, ROLLOUTS)
    forced = read_forced(arguments.forced, stage)
    continuations = (read_table(path, CONTINUATIONS) for path in arguments.continuations)
    outcomes = grade_outcomes(stage, questions, rollouts, forced, continuations, model_folder=model)
    write_table(outcomes, arguments.out, OUTCOMES)
    write_manifest(arguments.out, stage, started, {"rows": outcomes.num_rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

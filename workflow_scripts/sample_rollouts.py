"""Sample the base rollouts of one shard (rule sample_rollouts)."""

import argparse
import time
from pathlib import Path

from refork.data.journal import Journal
from refork.data.manifest import write_manifest
from refork.data.schemas import QUESTIONS, ROLLOUTS
from refork.data.tables import read_table, write_table
from refork.errors import exit_in_words
from refork.stages.engine_job import EngineJob
from refork.stages.sample_rollouts import sample_rollouts
from refork.study.folders import model_folder, read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--questions", type=Path, required=True, help="questions of the shard")
    parser.add_argument(
        "--journal", type=Path, required=True, help="folder of finished batch groups"
    )
    parser.add_argument(
        "--snapshots", type=Path, required=True, help="decode-time states that are kept"
    )
    parser.add_argument("--processes", type=int, default=1, help="that share the batch groups")
    parser.add_argument("--gpus", type=int, default=0, help="that are leased; 0: those it finds")
    parser.add_argument("--variants", default="", help="names that progress lines begin with")
    parser.add_argument("--out", type=Path, required=True, help="rollouts that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    model = model_folder(arguments.stage, stage)
    journal = Journal(arguments.journal)
    label = f"{arguments.variants} rollouts {arguments.out.stem}".strip()
    job = EngineJob(stage, model, journal, label, arguments.processes, arguments.gpus)
    questions = read_table(arguments.questions, QUESTIONS)
    rollouts, facts = sample_rollouts(job, questions, arguments.snapshots)
    write_table(rollouts, arguments.out, ROLLOUTS)
    write_manifest(arguments.out, stage, started, facts, files=[arguments.snapshots])
    journal.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

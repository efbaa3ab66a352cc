"""Sample continuations of one shard: one pass, one draw block (rule resample)."""

import argparse
import time
from pathlib import Path

from refork.data.journal import Journal
from refork.data.manifest import write_manifest
from refork.data.schemas import CONTINUATIONS, ROLLOUTS
from refork.data.tables import read_table, write_table
from refork.errors import exit_in_words
from refork.stages.engine_job import EngineJob
from refork.stages.forced import read_forced
from refork.stages.resample import resample
from refork.study.folders import model_folder, read_record
from refork.study.graph import block_draws


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--rollouts", type=Path, required=True, help="rollouts of the shard")
    parser.add_argument("--snapshots", type=Path, required=True, help="their decode-time states")
    parser.add_argument("--forced", type=Path, required=True, help="pivots or grid of the shard")
    parser.add_argument(
        "--draws", type=block_draws, required=True, help="draw block, such as 0000-0003"
    )
    parser.add_argument(
        "--journal", type=Path, required=True, help="folder of finished batch groups"
    )
    parser.add_argument("--processes", type=int, default=1, help="that share the batch groups")
    parser.add_argument("--gpus", type=int, default=0, help="that are leased; 0: those it finds")
    parser.add_argument("--variants", default="", help="names that progress lines begin with")
    parser.add_argument("--out", type=Path, required=True, help="continuations that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    model = model_folder(arguments.stage, stage)
    journal = Journal(arguments.journal)
    name = stage["settings"]["pass"]["name"]
    draws = f"draws {arguments.draws.start}-{arguments.draws.stop - 1}"
    label = f"{arguments.variants} {name} {arguments.out.stem} {draws}".strip()
    job = EngineJob(stage, model, journal, label, arguments.processes, arguments.gpus)
    rollouts = read_table(arguments.rollouts, ROLLOUTS)
    forced = read_forced(arguments.forced, stage)
    continuations, facts = resample(job, rollouts, arguments.snapshots, forced, arguments.draws)
    write_table(continuations, arguments.out, CONTINUATIONS)
    write_manifest(arguments.out, stage, started, facts)
    journal.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

"""Measure credit and replay noise of a variant (rule measure_noise)."""

import argparse
import time
from pathlib import Path

from refork.data.files import write_json
from refork.data.manifest import write_manifest
from refork.data.schemas import CONTINUATIONS, CREDITS, NOISE, OUTCOMES, PIVOTS
from refork.data.tables import read_shards, write_csv, write_table
from refork.errors import exit_in_words
from refork.stages.measure_noise import measure_noise
from refork.study.folders import read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--pivots", type=Path, required=True, help="folder of pivots")
    parser.add_argument("--outcomes", type=Path, required=True, help="folder of outcomes")
    parser.add_argument(
        "--continuations",
        type=Path,
        required=True,
        nargs="+",
        help="a folder a pass and block",
    )
    parser.add_argument("--out", type=Path, required=True, help="credits that are made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    pivots = read_shards([arguments.pivots], PIVOTS)
    outcomes = read_shards([arguments.outcomes], OUTCOMES)
    continuations = read_shards(arguments.continuations, CONTINUATIONS)
    measured = measure_noise(stage, pivots, outcomes, continuations)
    record, csv, table = (
        arguments.out.with_name(f"noise.{ending}") for ending in ("json", "csv", "parquet")
    )
    write_json(record, measured.noise)
    write_csv(measured.table, csv, NOISE)
    write_table(measured.table, table, NOISE)
    write_table(measured.credits, arguments.out, CREDITS)
    facts = {"rows": measured.credits.num_rows}
    write_manifest(arguments.out, stage, started, facts, files=[record, csv, table])
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

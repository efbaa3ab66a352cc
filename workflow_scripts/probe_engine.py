"""Probe whether the engine of a study is batch-invariant (rule probe_engine)."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from refork.data.files import write_json
from refork.data.manifest import write_manifest
from refork.data.schemas import QUESTIONS
from refork.data.tables import read_shards
from refork.errors import exit_in_words
from refork.stages.gpus import lease_gpus
from refork.stages.probe_engine import open_engines, probe_engine, require_invariant
from refork.study.folders import model_folder, read_record


def main() -> int:
    """Run the stage once; nothing is written of an engine that breaks its promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--questions", type=Path, required=True, help="folder of questions")
    parser.add_argument("--gpus", type=int, default=0, help="that are leased; 0: those it finds")
    parser.add_argument("--out", type=Path, required=True, help="record that is made")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    lease_gpus(arguments.gpus, stage["lock"]["engine"]["hardware"])
    engines = open_engines(stage, model_folder(arguments.stage, stage))
    questions = read_shards([arguments.questions], QUESTIONS)
    with tempfile.TemporaryDirectory(dir=arguments.out.parent) as folder:
        record, facts = probe_engine(stage, engines, questions, Path(folder))
    for way in record.ways:
        print(way.in_words, file=sys.stderr)
    require_invariant(record)
    write_json(arguments.out, record.model_dump(mode="json"))
    write_manifest(arguments.out, stage, started, facts)
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

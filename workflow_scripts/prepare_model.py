"""Fetch and lay out the model of a study (rule prepare_model)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.errors import exit_in_words
from refork.stages.prepare_model import prepare_model
from refork.study.folders import read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument("--model", type=Path, required=True, help="folder that is made")
    parser.add_argument("--out", type=Path, required=True, help="manifest that is written last")
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    facts = prepare_model(stage, arguments.model)
    write_manifest(arguments.model, stage, started, facts)
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

"""Make the report of a study (rule report)."""

import argparse
import time
from pathlib import Path

from refork.data.manifest import write_manifest
from refork.errors import exit_in_words
from refork.report.build import build_report
from refork.study.folders import read_record


def main() -> int:
    """Run the stage once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True, help="stage.json of the stage")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="report.html that is made, figures/ and tables/ beside it",
    )
    arguments = parser.parse_args()
    started = time.time()
    stage = read_record(arguments.stage)
    *beside, _ = build_report(stage, arguments.stage.parents[2], arguments.out.parent)
    write_manifest(arguments.out, stage, started, files=beside)
    return 0


if __name__ == "__main__":
    raise SystemExit(exit_in_words(main)())

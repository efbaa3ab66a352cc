"""`refork lock CONFIG`: freeze what a study's config points at."""

import argparse
from pathlib import Path

from refork.study.loading import load_files
from refork.study.lock import write_lock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("config", type=Path, help="study file; config/default.yaml lies below it")
    parser.add_argument(
        "--default",
        type=Path,
        default=Path("config/default.yaml"),
        help="config below the study file; default: %(default)s",
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the lock anew and say where it lies."""
    study = load_files(arguments.default, arguments.config)
    print(write_lock(study))
    return 0

"""The study file that a subcommand is given."""

import argparse
from pathlib import Path

from refork.study.loading import Study, load_files


def add_study_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the study file and the config below it."""
    parser.add_argument("config", type=Path, help="study file; config/default.yaml lies below it")
    parser.add_argument(
        "--default",
        type=Path,
        default=Path("config/default.yaml"),
        help="config below the study file; default: %(default)s",
    )


def given_study(arguments: argparse.Namespace) -> Study:
    """Load the study that the arguments name.

    Raises
    ------
    ReforkError
        The config is wrong.
    """
    return load_files(arguments.default, arguments.config)

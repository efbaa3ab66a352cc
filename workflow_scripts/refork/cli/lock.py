"""`refork lock CONFIG`: freeze what a study's config points at."""

import argparse

from refork.cli.study_file import add_study_arguments, given_study
from refork.study.lock import write_lock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the lock anew and say where it lies."""
    print(write_lock(given_study(arguments)))
    return 0

"""`refork schema`: the config's JSON schema, and the files that are made from the config model."""

import argparse
from pathlib import Path

from refork.data.files import write_text
from refork.errors import ReforkError
from refork.study.document import default_yaml, json_schema, with_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--write",
        action="store_true",
        help="write default.yaml, schema.json and the table in README.md of the config folder",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("config"), help="config folder; default: %(default)s"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the schema or write the files."""
    if not arguments.write:
        print(json_schema(), end="")
        return 0
    folder = arguments.folder
    page = folder / "README.md"
    if not page.is_file():
        raise ReforkError(f"--folder: {folder} is no config folder: it has no README.md")
    write_text(folder / "default.yaml", default_yaml())
    write_text(folder / "schema.json", json_schema())
    write_text(page, with_table(page.read_text()))
    return 0

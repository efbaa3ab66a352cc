"""The `refork` command: finds the module of a subcommand and runs it."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from refork import __version__
from refork.errors import exit_in_words

# Name of a subcommand, which is also its module here, and what it is for.
COMMANDS = {
    "lock": "freeze the model, questions and engine that a config points at",
    "plan": "what a study will run, what of it is cached, and at most how many tokens",
    "schema": "the config's JSON schema, and the files that are made from the config model",
    "probe": "whether an engine's numbers depend on the batch or on how a state is reached",
    "operations": "which operations of a model depend on what stands beside a row",
    "noise": "credit and replay noise of a study's results or of published records",
    "agreement": "how far the passes of a study's variants agree with their reference",
    "power": "what each estimator of outcome curves makes of few draws, on recorded stores",
    "questions": "make arithmetic word problems, with worked examples",
}


@exit_in_words
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; only its own module is imported, for the others are slow to load."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="refork",
        description="Where a model's answer forks, and how much of a token credit is replay noise.",
    )
    parser.add_argument("--version", action="version", version=f"refork {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        if given[:1] == [name]:
            import_module(f"refork.cli.{name}").add_arguments(command)
    parsed = parser.parse_args(given)
    return int(import_module(f"refork.cli.{parsed.command}").run(parsed))


if __name__ == "__main__":
    raise SystemExit(main())

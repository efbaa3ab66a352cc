"""`refork plan CONFIG`: what a study will run, and what of it is cached."""

import argparse
import json
from typing import Any

from rich.console import Console
from rich.table import Table

from refork.cli.study_file import add_study_arguments, given_study
from refork.study.cost import stage_cost
from refork.study.graph import Graph, build_graph
from refork.study.lock import make_lock_if_absent, read_lock

NARROWEST = 116  # columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    study = given_study(arguments)
    make_lock_if_absent(study)
    lock = read_lock(study)
    graph = build_graph(study, lock)
    rows = plan_rows(graph, lock)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        # A hash that is cut in two cannot be found in the results folder.
        console = Console()
        console.width = max(console.width, NARROWEST)
        console.print(_table(study.settings.study, rows))
    return 0


def plan_rows(graph: Graph, lock: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one record a stage, in the order of the data."""
    rows = []
    for stage in graph.stages():
        cost = stage_cost(graph, stage, lock)
        name = stage.name
        if name == "resample":
            name = f"resample {stage.settings['pass']['name']}"
        rows.append(
            {
                "stage": name,
                "variants": graph.variants_of(stage) or list(graph.variants),
                "hash": stage.hash,
                "cached": cost.to_run == 0,
                "jobs": cost.jobs,
                "to_run": cost.to_run,
                "requests": cost.requests,
                "tokens_at_most": cost.tokens,
                "tokens_to_run_at_most": cost.tokens_to_run,
            }
        )
    return rows


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"Study {title}")
    for name in ("stage", "variant", "hash", "state"):
        table.add_column(name, no_wrap=name != "variant")
    for name in ("jobs", "requests", "tokens at most"):
        table.add_column(name, justify="right")
    for row in rows:
        state = "cached" if row["cached"] else f"{row['to_run']} to run"
        table.add_row(
            row["stage"],
            ", ".join(row["variants"]),
            row["hash"],
            state,
            f"{row['jobs']:,}",
            f"{row['requests']:,}" if row["requests"] else "",
            f"{row['tokens_at_most']:,}" if row["tokens_at_most"] else "",
        )
    tokens = sum(row["tokens_to_run_at_most"] for row in rows)
    jobs = sum(row["to_run"] for row in rows)
    table.caption = f"to run: {jobs:,} jobs, at most {tokens:,} generated tokens"
    return table

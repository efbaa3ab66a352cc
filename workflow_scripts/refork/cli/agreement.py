"""`refork agreement`: how far the passes of a study agree with their reference."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refork.report.agreement import Agreement, Rate, agreement_rows, find_study
from refork.stats.bootstrap import CONFIDENCE
from refork.stats.missing import Missing

RATES = ("same_tokens", "same_outcomes", "changed_credits", "same_probes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("study", type=Path, help="results folder of a study, results/STUDY")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--markdown", action="store_true", help="print Markdown tables")


def run(arguments: argparse.Namespace) -> int:
    """Read the study's tables, compare its passes and print them."""
    study = find_study(arguments.study)
    rows = [row for variant in study.variants for row in agreement_rows(variant)]
    if arguments.json:
        record = {"study": study.name, "confidence": CONFIDENCE, "passes": records(rows)}
        print(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    from refork.cli.agreement_table import markdown, print_agreement  # noqa: PLC0415

    if arguments.markdown:
        print(markdown(rows))
    else:
        print_agreement(rows)
    return 0


def records(rows: Sequence[Agreement]) -> list[dict[str, Any]]:
    """Return one JSON object a pass; a null has its reason beside it."""
    return [
        {
            "variant": row.variant,
            "pass": row.name,
            "state": row.state,
            "shuffled": row.shuffled,
            **{name: _rate_record(getattr(row, name)) for name in RATES},
            "largest_delta": row.largest_delta,
        }
        for row in rows
    ]


def _rate_record(rate: Rate) -> dict[str, Any]:
    value, interval = rate.value, rate.interval
    record: dict[str, Any] = {"part": rate.part, "whole": rate.whole, "problems": rate.problems}
    record["value"] = None if isinstance(value, Missing) else value
    if isinstance(interval, Missing):
        return {**record, "low": None, "high": None, "reason": interval.reason}
    one_sided = interval.one_sided
    return {**record, "low": interval.low, "high": interval.high, "one_sided": one_sided}

"""The noise of a comparison as a table in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from refork.data.noise_record import ComparedPasses, published_name
from refork.report.wording import MISSING


def print_noise(record: Mapping[str, Any], names: ComparedPasses) -> None:
    """Print a noise record, the floor beside every figure of the treatment."""
    table = Table(title=_title(record, names), title_justify="left")
    table.add_column("quantity")
    table.add_column(names.treatment, justify="right")
    table.add_column(f"{names.floor} (floor)", justify="right")
    for label, treatment, floor in _pairs(record, names):
        table.add_row(label, _shown(treatment), _shown(floor))
    table.add_section()
    for label, value in _singles(record):
        table.add_row(label, _shown(value))
    console = Console()
    console.print(table)
    for path, reason in record["reasons"].items():
        console.print(f"{path}: {reason}", style="dim", markup=False, highlight=False)


def _title(record: Mapping[str, Any], names: ComparedPasses) -> str:
    return (
        f"{record['n_pivots']} pivots of {record['n_problems']} problems, "
        f"{record['eligible']} eligible; reference: {names.reference}"
    )


def _pairs(record: Mapping[str, Any], names: ComparedPasses) -> list[tuple[str, Any, Any]]:
    """Rows with a figure of the treatment and one of the floor."""

    def flips(part: Mapping[str, Any], key: str, floor: str) -> tuple[Any, Any]:
        return part[names.treatment][key], part[floor][key]

    rows = [
        (key.replace("_", " "), *flips(record, key, names.floor)) for key in record[names.floor]
    ]
    nonzero, probes = record["exact_nonzero"], record["probes"]
    rows.append(
        (
            f"flips of {nonzero['n']} with a reference credit",
            nonzero[names.treatment],
            nonzero[names.floor],
        )
    )
    for bucket, part in record["margin_buckets"].items():
        bound = bucket.replace("_lt_", " < ").replace("_ge_", " ≥ ")
        rows.append((f"flip rate, {bound} nat", *flips(part, "flip_rate", "floor")))
    for threshold, part in record["jaccard"].items():
        rows.append((f"Jaccard at {threshold}", part[names.treatment], part[names.floor]))
    treatment, floor = published_name(names.treatment), published_name(names.floor)
    for key in probes[treatment]:
        unit = " (nat)" if key.endswith("delta") else ""
        rows.append(
            (f"probes: {key.replace('_', ' ')}{unit}", probes[treatment][key], probes[floor][key])
        )
    return rows


def _singles(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Rows with one figure of the comparison."""
    problems, bias, mean = record["problems"], record["bias"], record["clustered_mean"]
    return [
        ("excess (points)", record["excess_pp"]),
        ("excess by problem (points)", None if mean is None else 100 * mean),
        ("t of that mean", record["clustered_t"]),
        ("McNemar z", record["mcnemar_z"]),
        *((f"problems {key}", value) for key, value in problems.items()),
        *((f"bias {key}", bias[key]) for key in ("mean", "t", "low", "high")),
        *((key.replace("_", " "), value) for key, value in record["eligibility_sources"].items()),
    ]


def _shown(value: Any) -> str:
    if value is None:
        return MISSING
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""A probe as a table in the terminal."""

from rich.console import Console
from rich.table import Table

from refork.data.probe_record import WAYS, ProbeRecord, Way
from refork.report.wording import MISSING, percent, small

NARROWEST = 104  # columns
LEGEND = (
    "equal: tokens; bit-equal: log-probabilities, |Δ| in nat; layer: the first whose keys or "
    "values differ, from 0 (by how much); refeed, by the prefill kernels, need not be equal"
)


def print_probe(name: str, record: ProbeRecord) -> None:
    """Print the probe of a variant, a row a way, and one sentence."""
    table = Table(title=_title(name, record), title_justify="left")
    table.add_column("way", no_wrap=True)
    table.add_column("", style="dim", overflow="fold")
    for column in ("rollouts", "tokens", "equal", "bit-equal", "|Δ log p|", "first layer"):
        table.add_column(column, justify="right", no_wrap=True)
    for way in record.ways:
        table.add_row(way.way, WAYS[way.way], *_cells(way))
    console = Console()
    console.width = max(console.width, NARROWEST)
    console.print(table)
    console.print(LEGEND, style="dim", markup=False, highlight=False, soft_wrap=True)
    console.print(record.verdict, markup=False, highlight=False, soft_wrap=True)


def _title(name: str, record: ProbeRecord) -> str:
    return (
        f"Variant {name}, kernels {record.kernels}: {record.rollouts} rollouts of "
        f"{record.questions} questions, against a batch of {record.side_by_side}"
    )


def _cells(way: Way) -> list[str]:
    if not way.rollouts:
        return ["0", *[MISSING] * 5]
    return [
        str(way.rollouts),
        str(way.tokens),
        percent(way.equal_tokens / way.tokens),
        percent(way.bit_equal / way.tokens),
        small(way.largest_delta),
        _layer(way),
    ]


def _layer(way: Way) -> str:
    """Say which layer differs first and by how much; `none` where all are equal."""
    if way.first_layer is None:
        return "none" if way.states else MISSING
    return f"{way.first_layer} (by {small(way.layer_delta)})"

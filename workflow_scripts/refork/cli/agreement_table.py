"""The agreement of a study's passes as tables, in the terminal and in Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from refork.report.agreement import Agreement, Rate
from refork.report.wording import MISSING, percent, small, whole
from refork.stats.bootstrap import CONFIDENCE
from refork.stats.missing import Missing

STATES = {
    "snapshot": "resumed",
    "prefill": "re-fed as prefill",
    "decode_replay": "re-fed token by token",
}
ORDERS = {False: "same order", True: "shuffled"}
RATES = {
    "same_tokens": "same tokens",
    "same_outcomes": "same outcome",
    "changed_credits": "credit changed",
    "same_probes": "greedy probes alike",
}
INTERVALS = f"[{percent(CONFIDENCE, 0)} interval over problems]"
WIDEST = 200  # columns


@dataclass(frozen=True)
class TextTable:
    """A table of words; every row is as long as the heads, of which `labels` name a row."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int


def same_tokens_table(rows: Sequence[Agreement]) -> TextTable:
    """Return the share of continuations with the same tokens: variants by state and order.

    Passes with random numbers or batches of their own are left to the other table.
    """
    plain = [row for row in rows if row.plain]
    ways = list(dict.fromkeys((row.state, row.shuffled) for row in plain))
    ways.sort(key=lambda way: (list(STATES).index(way[0]), way[1]))
    found = {(row.variant, row.state, row.shuffled): row.same_tokens for row in plain}
    return TextTable(
        title=f"Continuations with the same tokens as in the reference {INTERVALS}",
        heads=("variant", *(f"{STATES[state]}, {ORDERS[shuffled]}" for state, shuffled in ways)),
        rows=tuple(
            (variant, *(rate_cell(found.get((variant, *way))) for way in ways))
            for variant in dict.fromkeys(row.variant for row in plain)
        ),
        labels=1,
    )


def pass_table(rows: Sequence[Agreement]) -> TextTable:
    """Return everything that is compared, one row a pass."""
    return TextTable(
        title=f"Every pass against the reference of its variant {INTERVALS}",
        heads=(
            *("variant", "pass", "state", "order", "continuations", "problems"),
            *RATES.values(),
            "largest |Δ log p| (nat)",
        ),
        rows=tuple(
            (
                row.variant,
                row.name,
                STATES[row.state],
                ORDERS[row.shuffled],
                whole(row.same_tokens.whole),
                whole(row.same_tokens.problems),
                *(
                    rate_cell(getattr(row, name), counted=name == "changed_credits")
                    for name in RATES
                ),
                small(row.largest_delta),
            )
            for row in rows
        ),
        labels=4,
    )


def rate_cell(rate: Rate | None, *, counted: bool = False) -> str:
    """Return a rate with its interval, `64.0 % [58.1–69.7]`, or the bound of a rate at its end."""
    if rate is None or isinstance(rate.value, Missing):
        return MISSING
    value = percent(rate.value)
    if counted:
        value = f"{whole(rate.part)} of {whole(rate.whole)}, {value}"
    interval = rate.interval
    if isinstance(interval, Missing):
        return f"{value} [{MISSING}]"
    low, high = f"{100 * interval.low:.1f}", f"{100 * interval.high:.1f}"
    if interval.one_sided:
        return f"{value} [≥ {low}]" if interval.high == 1 else f"{value} [≤ {high}]"
    return f"{value} [{low}–{high}]"


def missing_reasons(rows: Iterable[Agreement]) -> list[str]:
    """Say of every rate without an interval why it has none."""
    return [
        f"{row.variant}, {row.name}, {label}: {interval.reason}"
        for row in rows
        for name, label in RATES.items()
        if isinstance(interval := getattr(row, name).interval, Missing)
    ]


def markdown(rows: Sequence[Agreement]) -> str:
    """Return both tables in Markdown, and the reasons below them."""
    tables = [_markdown_table(table) for table in (same_tokens_table(rows), pass_table(rows))]
    notes = "\n".join(f"- {reason}" for reason in missing_reasons(rows))
    return "\n\n".join([*tables, *([notes] if notes else [])])


def print_agreement(rows: Sequence[Agreement]) -> None:
    """Print both tables in the terminal, and the reasons below them."""
    console = Console()
    console.width = max(console.width, WIDEST)
    for table in (same_tokens_table(rows), pass_table(rows)):
        shown = Table(title=escape(table.title), title_justify="left")
        for number, head in enumerate(table.heads):
            shown.add_column(head, justify="left" if number < table.labels else "right")
        for row in table.rows:
            shown.add_row(*map(escape, row))
        console.print(shown)
    for reason in missing_reasons(rows):
        console.print(reason, style="dim", markup=False, highlight=False)


def _markdown_table(table: TextTable) -> str:
    rules = ["---"] * table.labels + ["---:"] * (len(table.heads) - table.labels)
    lines = [table.heads, rules, *table.rows]
    rows = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{table.title}\n\n" + "\n".join(rows)

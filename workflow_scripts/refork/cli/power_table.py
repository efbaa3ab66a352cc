"""The power study as a table in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from refork.report.wording import MISSING, decimal, percent
from refork.stats.curves.estimator import GIVEN
from refork.stats.curves.scores import FLAT, JUMPS, TVD

WIDEST = 180  # columns
_HEADS = {
    TVD: "TVD",
    **{name: f"jump {epsilon:.2f}" for epsilon, name in JUMPS.items()},
    FLAT: "flat",
}


def print_power(record: Mapping[str, Any]) -> None:
    """Print a row a cell, the paired difference of the TVD beside it."""
    questions = ", ".join(f"{track} {count}" for track, count in record["questions"].items())
    table = Table(
        title=f"Leave-replicate-out errors; questions: {escape(questions)}; "
        f"{record['replicates']} replicates",
        title_justify="left",
    )
    for head in ("track", "stride", "samples", "estimator", *_HEADS.values()):
        named = head in {"track", "estimator"}
        least = 9 if named else None
        table.add_column(
            head,
            justify="left" if named else "right",
            no_wrap=not named,
            overflow="fold",
            min_width=least,
        )
    against = record["paired"][0]["against"] if record["paired"] else None
    if against is not None:
        table.add_column(f"Δ TVD to {escape(against)}", justify="right", no_wrap=True)
    for head in ("× samples", "nat a draw", "ms a fit"):
        table.add_column(head, justify="right", no_wrap=True)
    paired = {_key(one): one for one in record["paired"]}
    for cell in record["cells"]:
        table.add_row(*_row(cell, paired.get(_key(cell)), against is not None))
    console = Console()
    console.width = max(console.width, WIDEST)
    console.print(table)
    if record["forks"]:
        console.print(_fork_table(record["forks"]))
    if record["coverage"]:
        console.print(_coverage_table(record["coverage"]))
    console.print(_law_table(record["noise_law"]))
    for line in [*_selections(record["selection"]), *_reasons(record["reasons"])]:
        console.print(line, style="dim", markup=False, highlight=False)


def _law_table(laws: Mapping[str, Any]) -> Table:
    """Show how two blocks of raw draws differ, and that beside multinomial draws."""
    table = Table(title="Noise of raw draws: TVD of two blocks of S draws", title_justify="left")
    for head in ("track", "S", "TVD", "÷ multinomial", "log-log slope", "multinomial slope"):
        table.add_column(head, justify="left" if head == "track" else "right", no_wrap=True)
    for track, law in laws.items():
        if law is None:
            continue
        for at, size in enumerate(law["samples"]):
            slopes = (
                ("", "")
                if at
                else (_bounded(law["slope"], "value"), decimal(law["multinomial_slope"], 3))
            )
            table.add_row(
                escape(track),
                str(size),
                decimal(law["tvd"][at], 4),
                _bounded(law["ratio"][at], "value", 3),
                *slopes,
            )
    return table


def _fork_table(forks: Sequence[Mapping[str, Any]]) -> Table:
    """Show which reported forks are near a jump, and which jumps near a reported fork."""
    heads = ("> ε", "± tokens", "reported", "precision", "jumps", "recall")
    return _by_cell(
        "Forks against jumps of the curve of all continuations",
        heads,
        [
            (
                one,
                decimal(one["epsilon"]),
                str(one["within"]),
                str(one["reported"]),
                decimal(one["precision"]),
                str(one["jumps"]),
                decimal(one["recall"]),
            )
            for one in forks
        ],
    )


def _coverage_table(coverage: Sequence[Mapping[str, Any]]) -> Table:
    """Show how often held-out shares lie in the intervals."""
    heads = ("nominal", "of held-out shares", "without their noise")
    return _by_cell(
        "Coverage of intervals by category, where the estimate is in doubt",
        heads,
        [
            (one, percent(one["nominal"], 0), percent(one["shares"]), percent(one["curve"]))
            for one in coverage
        ],
    )


def _by_cell(title: str, heads: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Table:
    """Make a table whose rows begin with the cell that their record is of."""
    table = Table(title=title, title_justify="left")
    for head in ("track", "stride", "samples", "estimator", *heads):
        left = head in {"track", "estimator"}
        table.add_column(head, justify="left" if left else "right", no_wrap=not left)
    for record, *shown in rows:
        table.add_row(*(escape(str(part)) for part in _key(record)), *shown)
    return table


def _selections(selections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how estimators came to their hyper-parameters, where they chose them by the draws."""
    lines = (
        f"{one['estimator']}, {one['samples']} draws: {selection}"
        for one in selections
        for selection in one["fits"]
        if selection != GIVEN
    )
    return list(dict.fromkeys(lines))


def _reasons(reasons: Mapping[str, str]) -> list[str]:
    """Say why figures of a column are missing, once for all rows."""
    shown = {
        (path.split(".", 1)[1].removesuffix(".mean"), reason)
        for path, reason in reasons.items()
        if not path.startswith("paired") or path.split(".", 1)[1].startswith(f"{TVD}.")
    }
    return [f"{column}: {reason}" for column, reason in sorted(shown)]


def _key(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(cell[name] for name in ("track", "stride", "samples", "estimator"))


def _row(cell: Mapping[str, Any], paired: Mapping[str, Any] | None, compared: bool) -> list[str]:
    first = [escape(str(part)) for part in _key(cell)]
    errors = [decimal(cell[name], 4) for name in _HEADS]
    last = [
        decimal(cell["ess"], 1),
        decimal(cell["loglik"], 4),
        decimal(1000 * cell["seconds"], 1),
    ]
    return [*first, *errors, *([_interval(paired)] if compared else []), *last]


def _interval(paired: Mapping[str, Any] | None) -> str:
    return MISSING if paired is None else _bounded(paired[TVD], "mean")


def _bounded(figure: Mapping[str, Any], name: str, digits: int = 4) -> str:
    """Return a figure with its interval, `−0.0150 [−0.0170, −0.0131]`."""
    value, low, high = (decimal(figure[part], digits) for part in (name, "low", "high"))
    return f"{value} \\[{low}, {high}]"

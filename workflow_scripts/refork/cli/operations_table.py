"""Operations and what they depend on, as a table in the terminal; plain text."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refork.engines.vllm.operations.comparing import Absent, Finding

HEAD = ("operation", "kernel", "items", "again", "order", "fewer", "differ in calls of", "prefill")
WIDTHS = (22, 22, 15, 7, 7, 7, 30, 7)
LEGEND = (
    "Share of items that get the same numbers, bit for bit, as in one call with all of them:\n"
    "  again    the same call once more\n"
    "  order    all of them in another order\n"
    "  fewer    fewer of them beside each other; behind it the sizes of the calls that differ\n"
    "  prefill  decode steps and tails, against the same tokens of the whole prefill\n"
    "  |Δ|      the largest difference of two numbers in all of these"
)


def print_operations(
    about: Mapping[str, str | None], results: "Iterable[Finding | Absent]"
) -> None:
    """Print a table a model and dtype, each row as soon as it is known, then what is absent."""
    print(", ".join(f"{key} {value or 'absent'}" for key, value in about.items()))
    print(LEGEND)
    for (model, dtype), of_model in groupby(results, key=lambda row: (row.model, row.dtype)):
        print(f"\n{model}, {dtype}")
        print(_line((*HEAD, "|Δ|")))
        absent: dict[tuple[str, str], list[str]] = {}
        for (name, kernel), rows in groupby(of_model, key=lambda row: (row.operation, row.kernel)):
            _print_one(name, kernel, list(rows), absent)
        for (kernel, reason), names in absent.items():
            print(f"absent: {kernel} ({', '.join(names)}): {reason}")


def _print_one(
    name: str,
    kernel: str,
    rows: "list[Finding | Absent]",
    absent: dict[tuple[str, str], list[str]],
) -> None:
    ways: dict[str, Finding] = {}
    for row in rows:
        if hasattr(row, "reason"):
            absent.setdefault((kernel, row.reason), []).append(name)
        else:
            ways[row.way] = row
    if ways:
        print(_line(_cells(name, kernel, ways)), flush=True)


def _cells(name: str, kernel: str, ways: "Mapping[str, Finding]") -> tuple[str, ...]:
    sizes = [ways[way] for way in ways if way.isdecimal()]
    differ = [row.way for row in sizes if row.equal < row.items]
    items, equal = sum(row.items for row in sizes), sum(row.equal for row in sizes)
    reference = ways["order"]
    return (
        name,
        kernel,
        f"{reference.items} {reference.unit}",
        _share(ways["again"].equal, ways["again"].items),
        _share(reference.equal, reference.items),
        _share(equal, items),
        " ".join(differ) or "none",
        _share(ways["prefill"].equal, ways["prefill"].items) if "prefill" in ways else "",
        f"{max(row.largest for row in ways.values()):.2g}",
    )


def _share(equal: int, items: int) -> str:
    """Write a share; 100 % stands for all alone."""
    if equal == items:
        return "100 %"
    return f"{min(100 * equal / items, 99.9):.1f} %"


def _line(cells: tuple[str, ...]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, (*WIDTHS, 0), strict=True)]
    return "  ".join(padded).rstrip()

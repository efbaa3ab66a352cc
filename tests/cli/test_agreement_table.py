"""The tables of agreement: which cell says what, and what has no figure says why."""

import io
from contextlib import redirect_stdout
from typing import Any

import pytest

from refork.cli.agreement import records
from refork.cli.agreement_table import (
    markdown,
    missing_reasons,
    pass_table,
    print_agreement,
    rate_cell,
    same_tokens_table,
)
from refork.report.agreement import Agreement, Rate
from refork.report.wording import MISSING
from refork.stats.bootstrap import Interval
from refork.stats.missing import Missing

FULL = Rate(80, 80, 40, Interval(0.9278, 1.0, one_sided=True))
NONE = Rate(0, 30, 20, Interval(0.0, 0.139, one_sided=True))
SOME = Rate(1640, 2560, 40, Interval(0.581, 0.6969))
ABSENT = Rate(0, 0, 0, Missing("no problems"))
ALONE = Rate(1, 4, 1, Missing("one problem alone: no spread to judge by"))


def row(variant: str, name: str, state: str, tokens: Rate = FULL, **settings: Any) -> Agreement:
    settings |= {"name": name, "state": state}
    return Agreement(variant, name, settings, tokens, FULL, NONE, FULL, 0.04131)


ROWS = [
    row("stock", "refeed", "prefill", SOME),
    row("stock", "replica", "snapshot"),
    row("stock", "replica_shuffled", "snapshot", SOME, order_seed=1),
    row("stock", "reseeded", "snapshot", NONE, seed=5),
    row("fp32", "replay", "decode_replay"),
]


def plain(text: str) -> str:
    return text.replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("rate", "cell"),
    [
        (FULL, "100 % [≥ 92.8]"),
        (NONE, "0 % [≤ 13.9]"),
        (SOME, "64.1 % [58.1–69.7]"),
        (ALONE, "25.0 % [–]"),
        (ABSENT, MISSING),
        (None, MISSING),
    ],
)
def test_cells(rate: Rate | None, cell: str) -> None:
    assert plain(rate_cell(rate)) == cell


def test_a_counted_cell() -> None:
    assert plain(rate_cell(SOME, counted=True)) == "1 640 of 2 560, 64.1 % [58.1–69.7]"


def test_variants_by_state_and_order() -> None:
    table = same_tokens_table(ROWS)
    assert table.heads[1:] == (
        "resumed, same order",
        "resumed, shuffled",
        "re-fed as prefill, same order",
        "re-fed token by token, same order",
    )
    some, full = rate_cell(SOME), rate_cell(FULL)
    assert table.rows == (
        ("stock", full, some, some, MISSING),
        ("fp32", MISSING, MISSING, MISSING, full),
    )


def test_every_pass_has_a_row_with_all_columns() -> None:
    table = pass_table(ROWS)
    assert [line[1] for line in table.rows] == [item.name for item in ROWS]
    assert {len(line) for line in table.rows} == {len(table.heads)}
    first = dict(zip(table.heads, map(plain, table.rows[0]), strict=True))
    assert first["state"] == "re-fed as prefill"
    assert (first["continuations"], first["problems"]) == ("2 560", "40")
    assert first["credit changed"] == "0 of 30, 0 % [≤ 13.9]"
    assert first["largest |Δ log p| (nat)"] == "0.0413"


def test_markdown_is_two_tables_whose_rows_are_whole() -> None:
    parts = plain(markdown(ROWS)).split("\n\n")
    assert len(parts) == 4
    assert parts[0].endswith("[95 % interval over problems]")
    for table in (parts[1], parts[3]):
        widths = {line.replace("\\|", "").count("|") for line in table.splitlines()}
        assert len(widths) == 1
    assert "largest \\|Δ log p\\| (nat)" in parts[3]


def test_what_has_no_interval_says_why() -> None:
    rows = [*ROWS, row("one", "replica", "snapshot", ALONE), row("none", "a", "prefill", ABSENT)]
    reasons = [
        "one, replica, same tokens: one problem alone: no spread to judge by",
        "none, a, same tokens: no problems",
    ]
    assert missing_reasons(rows) == reasons
    assert markdown(rows).endswith("\n\n" + "\n".join(f"- {reason}" for reason in reasons))
    assert missing_reasons(ROWS) == []


def test_the_terminal_shows_brackets_as_they_are() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        print_agreement([row("[red]odd", "replica", "snapshot", ALONE)])
    shown = plain(printed.getvalue())
    assert "[red]odd" in shown
    assert "25.0 % [–]" in shown
    assert "[≥ 92.8]" in shown
    assert "one problem alone" in shown


def test_records_say_why_a_figure_is_null() -> None:
    first, alone, absent = records(
        [ROWS[0], row("one", "b", "prefill", ALONE), row("none", "b", "prefill", ABSENT)]
    )
    assert first["same_tokens"] == {
        "part": 1640,
        "whole": 2560,
        "problems": 40,
        "value": 0.640625,
        "low": 0.581,
        "high": 0.6969,
        "one_sided": False,
    }
    assert alone["same_tokens"]["value"] == 0.25
    assert alone["same_tokens"]["low"] is None
    assert alone["same_tokens"]["reason"] == "one problem alone: no spread to judge by"
    assert absent["same_tokens"]["value"] is None
    assert absent["same_tokens"]["reason"] == "no problems"

"""The report's folder: the page, and its figures and tables as files."""

from pathlib import Path

from refork.data.files import write_bytes, write_text
from refork.data.tables import write_csv, write_table
from refork.report.figures import draw_figures
from refork.report.marked import mark_rollout
from refork.report.page import render_page
from refork.report.study_data import Decode, Look, StudyData
from refork.report.style import colours_of, png_bytes, svg_bytes
from refork.report.tables import report_tables


def write_report(study: StudyData, look: Look, decode: Decode, folder: Path) -> list[Path]:
    """Write report.html, figures/*.svg and *.png, tables/*.csv and *.parquet; return their paths.

    All of it is made before anything is written, every file is written whole or not at all, and the
    page comes last: where there is a page, there is all that belongs to it.

    Raises
    ------
    ReforkError
        `look` names a palette or a question that does not exist, or a file cannot be written.
    """
    figures = draw_figures(study, colours_of(look.palette))
    marked = mark_rollout(study, look, decode)
    images = {
        f"{item.name}.{ending}": draw(item.figure)
        for item in figures
        for ending, draw in (("svg", svg_bytes), ("png", png_bytes))
    }
    tables = report_tables(study, marked)
    page = render_page(study, look, figures, marked)
    written = []
    for name, content in images.items():
        written.append(folder / "figures" / name)
        write_bytes(written[-1], content)
    for name, table in tables.items():
        written += [folder / "tables" / f"{name}.{ending}" for ending in ("csv", "parquet")]
        write_csv(table, written[-2], table.schema)
        write_table(table, written[-1], table.schema)
    written.append(folder / "report.html")
    write_text(written[-1], page)
    return written

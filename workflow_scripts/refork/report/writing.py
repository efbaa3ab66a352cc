"""The report's folder: the page, and its figures and tables as files."""

from pathlib import Path

from refork.data.files import write_bytes, write_text
from refork.data.tables import write_csv, write_table
from refork.report.curve_figures import draw_curve_figures
from refork.report.curve_rows import shown_curves
from refork.report.curve_section import curve_section
from refork.report.curve_tables import curve_tables
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
    shown = shown_curves(study, look, decode)
    of_curves = draw_curve_figures(study, shown, look.palette)
    images = {
        f"{item.name}.{ending}": draw(item.figure)
        for item in [*figures, *of_curves.values()]
        for ending, draw in (("svg", svg_bytes), ("png", png_bytes))
    }
    tables = report_tables(study, marked) | curve_tables(study, decode)
    page = render_page(study, look, figures, marked, curve_section(study, shown, of_curves))
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

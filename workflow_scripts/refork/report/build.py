"""The report of a study, from the record of its stage to its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refork.report.collect import collect_study
from refork.report.study_data import Look
from refork.report.writing import write_report
from refork.tasks.text import TextDecoder


def build_report(results: Path, record: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the report of a study into `folder`; return the files, the page last.

    Parameters
    ----------
    results
        Folder of all results.
    record
        stage.json of the report.

    Raises
    ------
    ReforkError
        A table is absent or damaged, or the config's look names what does not exist.
    """
    study, model = collect_study(results, record)
    decoder = TextDecoder(model)
    look = Look(**record["settings"]["base"]["report"])
    return write_report(study, look, decoder.pieces, folder)

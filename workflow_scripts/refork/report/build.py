"""The report of a study, from the record of its stage to its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refork.report.collect import collect_study
from refork.report.study_data import Look
from refork.report.writing import write_report
from refork.tasks.text import TextDecoder


def build_report(stage: Mapping[str, Any], results: Path, folder: Path) -> list[Path]:
    """Write the report of a study into `folder`; return the files, the page last.

    Parameters
    ----------
    stage
        The record that was hashed.
    results
        Folder of all results.

    Raises
    ------
    ReforkError
        A table is absent or damaged, or the config's look names what does not exist.
    """
    study, model = collect_study(stage, results)
    decoder = TextDecoder(model)
    look = Look(**stage["settings"]["base"]["report"])
    return write_report(study, look, decoder.pieces, folder)

"""Folders and interpreters may have any name that a file can have: no shell reads it."""

import sys

import pytest

from helpers.project import Project

pytestmark = pytest.mark.workflow


def test_blanks_and_shell_words(project: Project) -> None:
    python = project.folder / "my python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    results = project.folder / "it's; $(touch obeyed) mine"
    project.configure(results=results.name, engine={"python": str(python)})
    project.succeed()
    assert (results / "small" / "report.html").exists()
    assert not (project.folder / "obeyed").exists()

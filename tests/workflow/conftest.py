"""Copies of the project on which the workflow is tried."""

from pathlib import Path

import pytest

from helpers.project import QUESTIONS, Project
from helpers.repository import copy_to


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a fresh copy of the project with the small study."""
    project = Project(copy_to(tmp_path / "project"))
    project.configure()
    project.ask(QUESTIONS)
    return project


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy in which the small study has run; a test that changes it changes it back."""
    project = Project(copy_to(tmp_path_factory.mktemp("finished") / "project"))
    project.configure()
    project.ask(QUESTIONS)
    project.succeed()
    return project

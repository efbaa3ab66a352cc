"""The house keeps its form: names, sizes, and what must not stand anywhere."""

import ast
import re
from pathlib import Path

import pytest

from helpers.repository import ROOT, files

TOP_LEVEL = {
    *("Snakefile", "config", "rules", "workflow_scripts", "envs", "profiles", "tests", "docs"),
    *("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "LICENSE", ".ci", ".gitignore"),
}
SCRIPTS = ROOT / "workflow_scripts"
# Studies and questions of a user's own lie beside the tracked files and may look as they like.
TRACKED = files(untracked=False)
PACKAGE = SCRIPTS / "refork"
RULE = re.compile(r"^\s*(rule|checkpoint)\s+(\w+):", re.MULTILINE)
RULE_FILES = sorted(path for path in (ROOT / "rules").glob("*.smk") if path.stem != "common")
PYTHON = [ROOT / name for name in TRACKED if name.suffix == ".py"]
TEXTS = [
    ROOT / name
    for name in TRACKED
    if name.suffix in {".py", ".smk", ".yaml", ".toml", ".md", ".txt", ".jinja"}
    or name.name in {"Snakefile", "Makefile", "run"}
]
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(root|home|work|srv|mnt|Users)/\w")
SERIALIZERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_top_level_names() -> None:
    assert {name.parts[0] for name in TRACKED} <= TOP_LEVEL


def test_snakefile_is_short() -> None:
    assert lines_of(ROOT / "Snakefile") < 60


@pytest.mark.parametrize("path", RULE_FILES, ids=name_of)
def test_a_rule_file_holds_the_rule_of_its_name(path: Path) -> None:
    assert RULE.findall(path.read_text()) == [("rule", path.stem)]


@pytest.mark.parametrize("path", RULE_FILES, ids=name_of)
def test_a_rule_calls_the_script_of_its_name_by_shell(path: Path) -> None:
    text = path.read_text()
    assert f"workflow_scripts/{path.stem}.py" in text
    assert not re.search(r"^\s*(script|run|notebook|wrapper):", text, re.MULTILINE)
    assert re.search(r"^\s*conda:", text, re.MULTILINE)


def test_rules_scripts_and_stages_have_the_same_names() -> None:
    names = {path.stem for path in RULE_FILES}
    assert names
    assert {path.stem for path in SCRIPTS.glob("*.py")} == names
    # The report has a floor of its own; every other rule has its module in `stages`.
    assert {path.stem for path in (PACKAGE / "stages").glob("*.py")} >= names - {"report"}
    assert (PACKAGE / "report" / "build.py").exists()


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=name_of)
def test_a_script_is_short(path: Path) -> None:
    assert 20 <= lines_of(path) <= 80


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=name_of)
def test_a_module_is_under_300_lines(path: Path) -> None:
    assert lines_of(path) < 300


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_nothing_is_pickled(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    allowed = {
        node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
    }
    assert not imported & SERIALIZERS
    assert not allowed


def test_no_path_of_one_machine() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []

"""pyproject.toml, the lock files, the conda files and what is installed agree."""

import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.repository import ROOT

ENVS = ROOT / "envs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def lock(name: str) -> dict[str, str]:
    lines = (ENVS / f"{name}.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    return pins


WANTED = {
    "analysis": (PROJECT["dependencies"] + EXTRAS["analysis"], lock("analysis")),
    "torch": (PROJECT["dependencies"] + EXTRAS["torch"], lock("torch")),
    "dev": (EXTRAS["dev"], lock("analysis") | lock("torch") | lock("dev")),
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (texts, _) in WANTED.items() for text in texts]
)
def test_every_dependency_is_pinned_within_its_bounds(name: str, text: str) -> None:
    requirement = Requirement(text)
    assert requirement.specifier.contains(WANTED[name][1][canonicalize_name(requirement.name)])


def test_the_extras_of_pyproject_are_the_environments() -> None:
    assert set(EXTRAS) == {path.stem for path in ENVS.glob("*.txt")}
    assert set(EXTRAS) == {path.stem for path in ENVS.glob("*.yaml")}


def test_lock_files_agree_where_they_share_a_package() -> None:
    analysis, torch, dev = lock("analysis"), lock("torch"), lock("dev")
    shared = analysis.keys() & torch.keys()
    assert {name: analysis[name] for name in shared} == {name: torch[name] for name in shared}
    assert not dev.keys() & (analysis.keys() | torch.keys())


@pytest.mark.parametrize("name", EXTRAS)
def test_conda_files_hold_the_pins_of_the_lock_files(name: str) -> None:
    conda = yaml.safe_load((ENVS / f"{name}.yaml").read_text())
    locks = EXTRAS if name == "dev" else [name]
    pins = {pin for each in locks for pin in (ENVS / f"{each}.txt").read_text().splitlines()}
    python, pip, inner = conda["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    assert inner["pip"] == sorted(pins, key=lambda pin: pin.split("==")[0])


def test_the_files_are_those_that_the_installed_packages_give() -> None:
    command = [sys.executable, str(ENVS / "lock.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("envs/: nothing differs\n", 0), done.stderr

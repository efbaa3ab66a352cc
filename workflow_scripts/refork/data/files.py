"""Files written whole or not at all, and their digests."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refork.errors import ReforkError


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it is synced and renamed, else removed.

    Raises
    ------
    ReforkError
        The file system refuses: no space, no permission, a read-only folder.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise ReforkError(
            f"{path}: cannot be written ({error.strerror or error}); nothing was left half-written"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a UTF-8 file atomically."""
    write_bytes(path, content.encode())


def canonical_json(record: Any) -> str:
    """One spelling of a JSON value: sorted keys, no blanks, no NaN; what every hash is taken of."""
    return json.dumps(
        record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def write_json(path: Path, record: Any) -> None:
    """Write a readable JSON file atomically, its keys in the order given."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises
    ------
    ReforkError
        The file is absent or no JSON; the message names file and line.
    """
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ReforkError(f"{path}: no such file") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReforkError(f"{path}: not a JSON file ({error})") from error


def file_sha256(path: Path) -> str:
    """Sha256 of a file, in hexadecimal."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()

"""Files that are written whole or not at all, and their digests."""

import errno
import os
from pathlib import Path

import pytest

from refork.data.files import atomic_path, canonical_json, file_sha256, read_json, write_text
from refork.errors import ReforkError


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.txt"
    write_text(path, "one")
    with pytest.raises(ZeroDivisionError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "one"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    said = r"file\.txt: cannot be written \(No space left"
    with pytest.raises(ReforkError, match=said), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_a_really_full_disk(full_disk: Path) -> None:
    with pytest.raises(ReforkError, match="No space left"):
        write_text(full_disk / "file.txt", "x" * 4_000_000)
    assert list(full_disk.iterdir()) == []


def test_canonical_json_has_one_spelling() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_a_broken_json_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"a": 1,\n]')
    with pytest.raises(ReforkError, match=r"broken\.json: not a JSON file .*line 2"):
        read_json(path)
    with pytest.raises(ReforkError, match="no such file"):
        read_json(tmp_path / "absent.json")


def test_a_files_sha256_is_the_standards(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")  # FIPS 180-4, example B.1
    assert file_sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

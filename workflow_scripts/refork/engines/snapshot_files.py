"""Snapshot files as bytes: read without the library of an engine, and put together.

Tensors are copied as bytes, so they stay what they were bit for bit, whatever their dtype, and
never lie in memory as a whole. The format (https://huggingface.co/docs/safetensors) is 8 bytes of
header length, a JSON header with the byte range of each tensor, the tensors.
"""

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refork.data.files import atomic_path
from refork.errors import EngineError

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 8
_METADATA = "__metadata__"
METADATA = "refork"
"""Key of the metadata under which a file says, in JSON, of what kind its snapshots are."""


@dataclass(frozen=True)
class Header:
    """What a snapshot file says of itself."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, Any]  # by rollout id: dtype, shape, data_offsets
    end: int  # bytes of length and header; data_offsets count from here


def read_header(path: Path) -> Header:
    """Read the header of a snapshot file."""
    with path.open("rb") as source:
        (length,) = _LENGTH.unpack(source.read(_LENGTH.size))
        tensors = json.loads(source.read(length))
    return Header(tensors.pop(_METADATA, {}), tensors, _LENGTH.size + length)


def check_kind(
    path: Path, metadata: Mapping[str, str] | None, wanted: Mapping[str, object]
) -> None:
    """Hold the metadata of a snapshot file against what its reader goes on from.

    Raises
    ------
    EngineError
        Its snapshots are of another kind; the message names what differs.
    """
    found = json.loads((metadata or {}).get(METADATA, "{}"))
    differences = [
        f"{key} is {found.get(key)!r}, not {value!r}"
        for key, value in wanted.items()
        if found.get(key) != value
    ]
    if differences:
        raise EngineError(
            f"{path}: a snapshot of another kind than this engine's: {'; '.join(differences)}"
        )


def merge_snapshots(parts: Sequence[Path], out: Path) -> None:
    """Write the snapshots of several files into one; parts that do not exist hold none.

    Raises
    ------
    EngineError
        The parts are of different kinds (model, dtype), or name the same rollout.
    """
    headers = [(part, read_header(part)) for part in parts if part.exists()]
    merged: dict[str, Any] = {}
    offset = 0
    for part, header in headers:
        if merged.setdefault(_METADATA, header.metadata) != header.metadata:
            raise EngineError(f"{part}: its snapshots are of another kind than {headers[0][0]}")
        for name, tensor in header.tensors.items():
            if name in merged:
                raise EngineError(f"{part}: a snapshot of rollout {name} stands twice")
            start, end = tensor["data_offsets"]
            merged[name] = {**tensor, "data_offsets": [offset + start, offset + end]}
        offset += max((tensor["data_offsets"][1] for tensor in header.tensors.values()), default=0)
    text = json.dumps(merged, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with atomic_path(out) as temporary, temporary.open("wb") as target:
        target.write(_LENGTH.pack(len(text)) + text)
        for part, header in headers:
            with part.open("rb") as source:
                source.seek(header.end)
                shutil.copyfileobj(source, target, 1 << 22)

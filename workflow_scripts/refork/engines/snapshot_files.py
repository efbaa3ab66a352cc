"""Snapshot files of batch groups, put together into the file of a shard.

Tensors are copied as bytes, so they stay what they were bit for bit, whatever their dtype, and
never lie in memory as a whole. The format (https://huggingface.co/docs/safetensors) is 8 bytes of
header length, a JSON header with the byte range of each tensor, the tensors.
"""

import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refork.data.files import atomic_path
from refork.errors import EngineError

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 8


def merge_snapshots(parts: Sequence[Path], out: Path) -> None:
    """Write the snapshots of several files into one; parts that do not exist hold none.

    Raises
    ------
    EngineError
        The parts are of different kinds (model, dtype), or name the same rollout.
    """
    headers = [(part, _header(part)) for part in parts if part.exists()]
    merged: dict[str, Any] = {}
    offset = 0
    for part, header in headers:
        metadata = header.pop("__metadata__", {})
        if merged.setdefault("__metadata__", metadata) != metadata:
            raise EngineError(f"{part}: its snapshots are of another kind than {headers[0][0]}")
        for name, tensor in header.items():
            if name in merged:
                raise EngineError(f"{part}: a snapshot of rollout {name} stands twice")
            start, end = tensor["data_offsets"]
            merged[name] = {**tensor, "data_offsets": [offset + start, offset + end]}
        offset += max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    text = json.dumps(merged, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with atomic_path(out) as temporary, temporary.open("wb") as target:
        target.write(_LENGTH.pack(len(text)) + text)
        for part, _ in headers:
            with part.open("rb") as source:
                source.seek(_LENGTH.size + _header_length(part))
                shutil.copyfileobj(source, target, 1 << 22)


def _header_length(path: Path) -> int:
    with path.open("rb") as source:
        return int(_LENGTH.unpack(source.read(_LENGTH.size))[0])


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as source:
        length = int(_LENGTH.unpack(source.read(_LENGTH.size))[0])
        return dict(json.loads(source.read(length)))

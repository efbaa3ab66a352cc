"""Snapshots of the vLLM engine: a safetensors file, a tensor [layers, blocks, values] a rollout."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from refork.data.files import atomic_path, canonical_json
from refork.engines.requests import Request
from refork.engines.snapshot_files import METADATA, check_kind
from refork.errors import EngineError

FORMAT = 1
_COMMON = ("engine", "vllm", "dtype", "attention", "block_size", "weights")
"""Facts of a fingerprint that two engines must share for one to go on from the other's states."""


def state_kind(fingerprint: Mapping[str, str], device: str) -> dict[str, str]:
    """Say what two decode-time states must have in common for one to stand for the other.

    On the CPU the instruction set decides how keys lie within a block.
    """
    kind = {"format": str(FORMAT), "device": device}
    kind |= {name: fingerprint[name] for name in _COMMON}
    if device == "cpu":
        amx = torch.cpu._is_amx_tile_supported()  # what vLLM asks
        kind["layout"] = fingerprint["cpu_capability"] + (" and AMX" if amx else "")
    return kind


def write_states(path: Path, states: Mapping[str, torch.Tensor], kind: Mapping[str, str]) -> None:
    """Write states [layers, blocks, values] by rollout id, atomically.

    The metadata is one key of canonical JSON, for safetensors keeps no order among several.
    """
    try:
        with atomic_path(path) as temporary:
            save_file(dict(states), temporary, metadata={METADATA: canonical_json(dict(kind))})
    except SafetensorError as error:
        raise EngineError(f"{path}: cannot be written ({error})") from error


def check_states(
    path: Path, requests: Iterable[Request], kind: Mapping[str, str], block_size: int
) -> None:
    """Hold a snapshot file against the engine and the requests that will go on from it.

    Raises
    ------
    EngineError
        No such file, not a snapshot file, one of another kind, or a rollout that it lacks or holds
        fewer blocks of tokens of than a request asks for.
    """
    try:
        file: Any = safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise EngineError(f"{path}: not a snapshot file ({error})") from error
    with file:
        check_kind(path, file.metadata(), kind)
        names = frozenset(file.keys())
        for request in requests:
            name, tokens = request.rollout_id, len(request.token_ids)
            if name not in names:
                raise EngineError(f"{path}: no snapshot of rollout {name}")
            held = file.get_slice(name).get_shape()[1]
            if tokens > held * block_size:
                raise EngineError(
                    f"{path}: the snapshot of rollout {name} holds {held} blocks of {block_size} "
                    f"tokens, {tokens} tokens are asked for"
                )

"""KV snapshots of rollouts: one safetensors file, a tensor a rollout, read by slices."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from refork.data.files import atomic_path, canonical_json
from refork.engines.snapshot_files import METADATA, check_kind
from refork.errors import EngineError

FORMAT = 1


@dataclass(frozen=True)
class StateKind:
    """What two decode-time states must have in common for one to stand for the other."""

    model: str  # digest of configuration and weights
    dtype: str
    layers: int
    heads: int  # key-value heads
    width: int  # of a head


def write_snapshots(path: Path, states: Mapping[str, torch.Tensor], kind: StateKind) -> None:
    """Write states [layers, 2, key heads, tokens, width] by rollout id, atomically.

    The metadata is one key of canonical JSON, for safetensors keeps no order among several.
    """
    metadata = {METADATA: canonical_json({"format": FORMAT, **asdict(kind)})}
    tensors = {name: state.detach().cpu().contiguous() for name, state in states.items()}
    try:
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata=metadata)
    except SafetensorError as error:
        raise EngineError(f"{path}: cannot be written ({error})") from error


class Snapshots:
    """An open snapshot file; states are read bit for bit, only as far as they are asked for."""

    def __init__(self, path: Path, kind: StateKind) -> None:
        """Open the file and hold it against the model that will go on from it.

        Raises
        ------
        EngineError
            No such file, not a snapshot file, or one of another model, dtype or shape.
        """
        self._path = path
        self._file = _open(path)
        try:
            self._names = frozenset(self._file.keys())
            check_kind(path, self._file.metadata(), {"format": FORMAT, **asdict(kind)})
        except EngineError:
            self.close()
            raise

    def load(self, name: str, tokens: int) -> torch.Tensor:
        """Read the first tokens of a rollout's state [layers, 2, key heads, tokens, width].

        Raises
        ------
        EngineError
            The rollout has no snapshot, or a shorter one.
        """
        if name not in self._names:
            raise EngineError(f"{self._path}: no snapshot of rollout {name}")
        state = self._file.get_slice(name)
        held = state.get_shape()[3]
        if tokens > held:
            raise EngineError(
                f"{self._path}: the snapshot of rollout {name} holds {held} tokens, "
                f"{tokens} are asked for"
            )
        cut: torch.Tensor = state[:, :, :, :tokens, :]
        return cut

    def close(self) -> None:
        """Let go of the file."""
        self._file.__exit__(None, None, None)

    def __enter__(self) -> Self:
        """Open for the length of a `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the file."""
        self.close()


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise EngineError(f"{path}: not a snapshot file ({error})") from error

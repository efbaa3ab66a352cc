"""Where two decode-time states differ: the keys and values of a rollout, layer by layer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refork.engines.snapshot_files import read_header

_BITS: dict[str, "np.dtype[Any]"] = {
    "BF16": np.dtype("<u2"),
    "F16": np.dtype("<u2"),
    "F32": np.dtype("<u4"),
}
_AXES = 5  # layers, keys and values, heads, tokens, width


@dataclass(frozen=True)
class State:
    """Keys and values of one rollout, as bits [layers, 2, key heads, tokens, width]."""

    kind: str  # dtype, as the file names it
    bits: NDArray[Any]

    @property
    def tokens(self) -> int:
        """Number of tokens that were fed."""
        return int(self.bits.shape[3])


class StateFile:
    """A snapshot file, read a state at a time; one that does not exist holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = read_header(path) if path.exists() else None

    def state(self, name: str) -> State | None:
        """Read the state of a rollout; None where it is not kept as keys and values by layer."""
        if self._header is None or name not in self._header.tensors:
            return None
        tensor = self._header.tensors[name]
        kind, shape = tensor["dtype"], tuple(tensor["shape"])
        if kind not in _BITS or len(shape) != _AXES:
            return None
        place = self._header.end + tensor["data_offsets"][0]
        return State(kind, np.memmap(self._path, _BITS[kind], "r", place, shape))


@dataclass(frozen=True)
class LayerDistance:
    """Whether each layer differs in a bit, and by how much at most; one element a layer."""

    differs: NDArray[np.bool_]
    largest: NDArray[np.float64]

    def join(self, other: "LayerDistance | None") -> "LayerDistance":
        """Take the larger of two distances, layer by layer."""
        if other is None:
            return self
        return LayerDistance(self.differs | other.differs, np.maximum(self.largest, other.largest))


def state_distance(one: State, other: State, tokens: int) -> LayerDistance | None:
    """Compare the first `tokens` tokens, or as many as both hold; None for other shapes."""
    held = min(tokens, one.tokens, other.tokens)
    bits = [np.asarray(state.bits[:, :, :, :held]) for state in (one, other)]
    if one.kind != other.kind or bits[0].shape != bits[1].shape:
        return None
    layers = len(bits[0])
    unequal = bits[0] != bits[1]
    values = [_values(one.kind, part) for part in bits]
    with np.errstate(invalid="ignore"):
        gaps = np.where(unequal, np.abs(values[0] - values[1]), 0.0)
    return LayerDistance(
        unequal.reshape(layers, -1).any(axis=1),
        gaps.reshape(layers, -1).max(axis=1, initial=0.0).astype(np.float64),
    )


def _values(kind: str, bits: NDArray[Any]) -> NDArray[np.float32]:
    if kind == "BF16":  # the upper half of a float32
        return (bits.astype("<u4") << 16).view("<f4")
    return bits.view("<f2" if kind == "F16" else "<f4").astype(np.float32)

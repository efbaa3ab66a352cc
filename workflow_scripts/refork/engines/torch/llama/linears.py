"""Linear maps of rows: as wide as their input, or on tiles of a fixed number of rows."""

from collections.abc import Callable

import torch
from torch.nn.functional import linear

from refork.engines.tiles import TILE_ROWS, tiles

Linear = Callable[[torch.Tensor], torch.Tensor]
"""From [rows, in] to [rows, out]."""


class WideLinear:
    """A linear map that takes all rows at once; its last bits may depend on how many they are."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, packed: bool) -> None:
        """Take weight [out, in] and bias [out]; packed is laid out for oneDNN, on the CPU alone."""
        self._bias = bias
        self._packed = packed and _can_pack(weight)
        self._weight = weight
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), TILE_ROWS)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Map rows [rows, in] to [rows, out]."""
        if not self._packed:
            return linear(rows, self._weight, self._bias)
        mapped: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._weight, self._bias, "none", [], ""
        )
        return mapped


class TiledLinear:
    """A linear map that always takes exactly TILE_ROWS rows, padded with zeros.

    The kernel, its blocking and its order of sums are then the same for every row, whatever stands
    beside it.
    """

    def __init__(self, wide: Linear) -> None:
        """Take the map of one tile."""
        self._wide = wide

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Map rows [rows, in] to [rows, out]."""
        if len(rows) == TILE_ROWS:
            return self._wide(rows)
        parts = [self._wide(tile) for tile in tiles(rows)]
        return (parts[0] if len(parts) == 1 else torch.cat(parts))[: len(rows)]


def _can_pack(weight: torch.Tensor) -> bool:
    """Whether oneDNN has a linear map of this dtype on this machine."""
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if weight.device.type != "cpu" or not available:
        return False
    if weight.dtype == torch.bfloat16:
        supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        return supported
    return weight.dtype == torch.float32

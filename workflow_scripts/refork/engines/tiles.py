"""Tiles of a fixed number of rows: a kernel that only ever sees these treats all rows alike."""

from collections.abc import Iterator

import torch
from torch.nn.functional import pad

TILE_ROWS = 64
"""Rows of a tile, and of one turn of `feed`; constant, for it is part of what the numbers are."""


def tiles(rows: torch.Tensor, count: int = TILE_ROWS) -> Iterator[torch.Tensor]:
    """Yield [rows, columns] in tiles of exactly `count`, memory of their own, padded by zeros."""
    for first in range(0, len(rows), count):
        tile = rows[first : first + count]
        yield pad(tile, (0, 0, 0, count - len(tile)))

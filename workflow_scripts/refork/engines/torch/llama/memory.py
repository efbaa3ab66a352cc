"""Keys and values of rows that are decoded side by side."""

from dataclasses import dataclass

import torch

RESERVE = 128
"""Columns by which the memory grows; also the keys of a block in `plain`."""
ROWS_RESERVE = 16
"""Rows by which it grows."""


@dataclass(eq=False)
class Prefix:
    """A state that rows start from; they hold it by reference, and nobody writes to it."""

    source: torch.Tensor  # as it was given: kept, so that its address stays its own
    state: torch.Tensor  # [layers, 2, key heads, tokens, width], contiguous

    def is_of(self, state: torch.Tensor) -> bool:
        """Whether this is the very same memory, read in the same way."""
        own = self.source
        return (
            own.data_ptr() == state.data_ptr()
            and own.shape == state.shape
            and own.stride() == state.stride()
        )


@dataclass
class Row:
    """What a row has been fed."""

    prefix: Prefix | None = None
    shared: int = 0  # first tokens of the prefix that are its own
    own: int = 0  # tokens in the memory behind them

    @property
    def length(self) -> int:
        """Tokens of its state."""
        return self.shared + self.own


class Memory:
    """A buffer [layers, 2, rows, key heads, columns, width] that is as large as its rows need."""

    def __init__(
        self, layers: int, key_heads: int, width: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Start without rows."""
        # Zeros, for a masked column must hold finite numbers.
        self.tensor = torch.zeros((layers, 2, 0, key_heads, 0, width), dtype=dtype, device=device)

    def fit(self, rows: int, columns: int) -> None:
        """Make room for rows and columns, or let go of what has long not been needed."""
        held_rows, held_columns = self.tensor.shape[2], self.tensor.shape[4]
        wanted = -(-columns // RESERVE) * RESERVE
        spare = held_columns - wanted
        if rows <= held_rows and 0 <= spare < 2 * RESERVE:
            return
        old = self.tensor
        room = max(-(-rows // ROWS_RESERVE) * ROWS_RESERVE, held_rows)
        shape = (*old.shape[:2], room, old.shape[3], wanted, old.shape[5])
        self.tensor = old.new_zeros(shape)
        kept = min(wanted, held_columns)
        self.tensor[:, :, :held_rows, :, :kept] = old[:, :, :, :, :kept]

    def write(self, row: int, state: torch.Tensor) -> None:
        """Write the first columns of a row from a state [layers, 2, key heads, tokens, width]."""
        self.tensor[:, :, row, :, : state.shape[3]] = state

    def read(self, row: int, columns: int) -> torch.Tensor:
        """View of the first columns of a row."""
        return self.tensor[:, :, row, :, :columns]

"""How rows are drawn, and what was drawn."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from refork.errors import EngineError


@dataclass(frozen=True)
class Draws:
    """How the rows of a batch are drawn; one element a row.

    Seeds are uint64 carried as two's complement int64. Temperature 0 takes the most probable token,
    the lowest id where several are. `top_k` 0 and `top_p` 1 leave all tokens.
    """

    seeds: torch.Tensor  # int64
    positions: torch.Tensor  # int64, absolute position of the token that is drawn
    temperature: torch.Tensor  # float32
    top_p: torch.Tensor  # float32
    top_k: torch.Tensor  # int64

    def tile(self, first: int, count: int) -> "Draws":
        """Give `count` rows from the first on; missing ones are zeros, so at temperature 0."""
        parts = (field[first : first + count] for field in self._fields())
        return Draws(*(pad(part, (0, count - len(part))) for part in parts))

    def rows(self, chosen: torch.Tensor) -> "Draws":
        """Give the draws of some rows, int64 [chosen]."""
        return Draws(*(field[chosen] for field in self._fields()))

    def warmed(self) -> "Draws":
        """Give the same draws with those at temperature 0 at temperature 1, from all tokens."""
        cold = self.temperature == 0
        return Draws(
            self.seeds,
            self.positions,
            self.temperature.masked_fill(cold, 1),
            self.top_p.masked_fill(cold, 1),
            self.top_k.masked_fill(cold, 0),
        )

    def _fields(self) -> tuple[torch.Tensor, ...]:
        return self.seeds, self.positions, self.temperature, self.top_p, self.top_k


@dataclass(frozen=True)
class DrawnArrays:
    """`Drawn` as arrays [rows, 1 + recorded]: the drawn token, then the most probable ones."""

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]


@dataclass(frozen=True)
class Drawn:
    """What was drawn: one token a row, and the most probable tokens beside it.

    Log-probabilities are raw: natural, at temperature 1, before top-k and top-p.
    """

    tokens: list[int]
    logprobs: list[float]
    top_tokens: list[list[int]]  # best first, the lowest id first among equals
    top_logprobs: list[list[float]]

    @classmethod
    def of(cls, arrays: DrawnArrays) -> "Drawn":
        """Unpack arrays."""
        tokens, logprobs = arrays.tokens, arrays.logprobs
        return cls(
            tokens[:, 0].tolist(),
            logprobs[:, 0].tolist(),
            tokens[:, 1:].tolist(),
            logprobs[:, 1:].tolist(),
        )


class LogitsError(EngineError):
    """A row's logits are NaN or infinite: it has no log-probabilities, and nothing can be drawn.

    Whoever knows the request of `row` names its question.
    """

    WORDS = "the model's logits are NaN or infinite"

    def __init__(self, row: int) -> None:
        """Say which row of the logits it is."""
        super().__init__(f"row {row}: {self.WORDS}")
        self.row = row

    @classmethod
    def told(cls, error: Exception) -> "LogitsError | None":
        """Find it in an error, of which another process may hand over the words alone."""
        if isinstance(error, cls):
            return error
        found = re.search(rf"row (\d+): {cls.WORDS}", str(error))
        return None if found is None else cls(int(found[1]))

    @classmethod
    def raise_if_any(cls, faulty: Any) -> None:
        """Raise for the first row that is marked in an array or tensor of truth values [rows]."""
        if faulty.any():
            raise cls(int(faulty.nonzero()[0][0]))

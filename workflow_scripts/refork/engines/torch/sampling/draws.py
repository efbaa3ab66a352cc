"""How rows are drawn, and what was drawn."""

from dataclasses import dataclass

import torch


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

    def rows(self, chosen: torch.Tensor) -> "Draws":
        """Only these rows."""
        fields = (self.seeds, self.positions, self.temperature, self.top_p, self.top_k)
        return Draws(*(field[chosen] for field in fields))


@dataclass(frozen=True)
class Drawn:
    """What was drawn: one token a row, and the most probable tokens beside it.

    Log-probabilities are raw: natural, at temperature 1, before top-k and top-p.
    """

    tokens: list[int]
    logprobs: list[float]
    top_tokens: list[list[int]]  # best first, the lowest id first among equals
    top_logprobs: list[list[float]]

"""Draws on the CPU, a row at a time, by compiled kernels.

Nothing about a row depends on the other rows or on their number.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from refork.engines.sampling import kernels
from refork.engines.sampling.draws import DrawnArrays, Draws, LogitsError


class Arrays(NamedTuple):
    """`Draws` as the kernels take them."""

    seeds: NDArray[np.uint64]
    positions: NDArray[np.int64]
    temperature: NDArray[np.float32]
    top_p: NDArray[np.float32]
    top_k: NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """What is known of rows of logits once each has been read."""

    logits: NDArray[np.float32]  # [rows, vocabulary]
    peaks: NDArray[np.float32]  # largest of each block [rows, blocks]
    log_sums: NDArray[np.float64]  # log-sum-exp [rows]

    @classmethod
    def of(cls, logits: torch.Tensor) -> "Summary":
        """Read each row once.

        Raises
        ------
        LogitsError
            A row has no log-probabilities.
        """
        rows = logits.contiguous().numpy()
        peaks = np.empty((len(rows), -(-rows.shape[1] // kernels.BLOCK)), dtype=np.float32)
        log_sums = np.empty(len(rows))
        kernels.summarise(rows, peaks, log_sums)
        LogitsError.raise_if_any(~np.isfinite(log_sums))
        return cls(rows, peaks, log_sums)

    def log_probabilities(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Raw log-probabilities of tokens [rows, count]."""
        chosen = np.take_along_axis(self.logits, tokens, axis=1).astype(np.float64)
        return (chosen - self.log_sums[:, None]).astype(np.float32)


def draw(logits: torch.Tensor, draws: Draws, recorded: int) -> DrawnArrays:
    """Draw one token a row; see `sampling.draw_arrays`."""
    summary = Summary.of(logits)
    rows, vocabulary = summary.logits.shape
    drawn = np.empty(rows, dtype=np.int64)
    best = np.empty((rows, min(recorded, vocabulary)), dtype=np.int64)
    arrays = Arrays(
        draws.seeds.numpy().view(np.uint64),
        draws.positions.numpy(),
        draws.temperature.numpy(),
        draws.top_p.numpy(),
        draws.top_k.numpy(),
    )
    kernels.pick(summary.logits, summary.peaks, arrays, drawn, best)
    tokens = np.concatenate([drawn[:, None], best], axis=1)
    return DrawnArrays(tokens, summary.log_probabilities(tokens))


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Give raw log-probabilities; see `sampling.log_probabilities`."""
    return torch.from_numpy(Summary.of(logits).log_probabilities(tokens.numpy()))

"""Drawing tokens: the Gumbel-max trick with noise of (seed, absolute position, token id).

The token at a position is argmax over tokens of logit/T + Gumbel(u(seed, position, token)),
restricted by top-k, then by top-p: a draw from the softmax at temperature T that no other row of
the batch influences.
"""

import torch

from refork.engines.sampling import tensors
from refork.engines.sampling.draws import Drawn, DrawnArrays, Draws, LogitsError

__all__ = [
    "Drawn",
    "DrawnArrays",
    "Draws",
    "LogitsError",
    "draw",
    "draw_arrays",
    "log_probabilities",
]


def draw(logits: torch.Tensor, draws: Draws, recorded: int) -> Drawn:
    """Draw one token a row, and look up the `recorded` most probable ones.

    Parameters
    ----------
    logits
        float32 [rows, vocabulary]
    draws
        How each row is drawn.
    recorded
        Most probable tokens to give beside the drawn one.

    Raises
    ------
    LogitsError
        A row's logits are NaN or infinite.
    """
    return Drawn.of(draw_arrays(logits, draws, recorded))


def draw_arrays(logits: torch.Tensor, draws: Draws, recorded: int) -> DrawnArrays:
    """Draw as `draw` does, and leave what came out in arrays."""
    if logits.device.type == "cpu":
        from refork.engines.sampling import rows  # noqa: PLC0415 - numba is for the CPU alone

        return rows.draw(logits, draws, recorded)
    return tensors.draw(logits, draws, recorded)


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Give the raw log-probabilities, at temperature 1, of tokens [rows, count] in each row.

    The same numbers as those of `draw`, so that a token fed again in the same way has its recorded
    number bit for bit.

    Raises
    ------
    LogitsError
        A row's logits are NaN or infinite.
    """
    if logits.device.type == "cpu":
        from refork.engines.sampling import rows  # noqa: PLC0415 - numba is for the CPU alone

        return rows.log_probabilities(logits, tokens)
    return tensors.log_probabilities(logits, tokens)

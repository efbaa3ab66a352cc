"""Information time: how much a curve may move from token to token.

With p_t the renormalised probability of the base token, o_t = p_t s_{t+1} + (1 − p_t) r_t, so
|s_{t+1} − o_t| ≤ 1 − p_t: where p_t is 1 the curve cannot move. What was dropped below the branch
threshold moves it a little more, for o_{t+1} leaves it out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refork.stats.curves.forkhmm.states import Floats


@dataclass(frozen=True)
class Information:
    """Information of the step t → t+1: (1 − p_t)^power + dropped_{t+1}^power + always."""

    power: float = 1.2
    always: float = 0.01
    unknown: float = 0.033  # of a step whose p_t or dropped mass is unknown

    def time(
        self,
        base_probability: Floats,
        dropped: Floats,
        *,
        split: NDArray[np.int64] | None = None,
        still: NDArray[np.int64] | None = None,
    ) -> Floats:
        """Information from token 0 to every token; shape (tokens,).

        Parameters
        ----------
        base_probability, dropped
            Shape (tokens,): p_t and the mass below the branch threshold; NaN where unknown.
        split
            Tokens whose choice is modelled by itself, so that it does not count as information.
        still
            Tokens whose curve is by definition that of the next token.
        """
        chosen = (1 - np.minimum(base_probability, 1.0)) ** self.power
        if split is not None:
            chosen[split] = 0.0
        steps = chosen[:-1] + np.maximum(dropped[1:], 0.0) ** self.power + self.always
        steps = np.where(np.isnan(steps), self.unknown, steps)
        if still is not None:
            steps[still[still < len(steps)]] = 0.0
        return np.concatenate([[0.0], np.cumsum(steps)])

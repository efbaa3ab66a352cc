"""Tables of outcome curves whose true curves are known, of the synthetic engine's chain."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refork.data.schemas import CONTINUATIONS, GRID, OUTCOMES
from refork.engines.synthetic.chain import (
    Chain,
    outcome_distribution,
    sampling_probabilities,
)
from refork.engines.synthetic.model import read_chain, write_synthetic_model

PROMPT = 7
"""Position of the first generated token."""
LEAST = 0.05
"""Probability of a branch."""


@dataclass(frozen=True)
class ChainCurve:
    """A rollout of the chain: its grid, graded draws and the curve behind them."""

    grid: pa.Table
    outcomes: pa.Table
    continuations: pa.Table
    labels: list[str]
    curve: NDArray[np.float64]  # [positions, labels]


def synthetic_chain(folder: Path) -> Chain:
    write_synthetic_model(folder)
    return read_chain(folder)[0]


def chain_curve(
    chain: Chain, question: str, *, draws: int, seed: int, length: int = 60, each: bool = False
) -> ChainCurve:
    """Draw at every token; the rollout is one that has not ended after `length` tokens."""
    random = np.random.default_rng(seed)
    moves = sampling_probabilities(chain.transitions, 1.0)
    labels = sorted(chain.conclusions.values())
    behind = np.array(
        [
            [outcome_distribution(chain, moves, state)[label] for label in labels]
            for state in range(len(chain.token_ids))
        ]
    )
    grid, graded, continued, curve = [], [], [], []
    last = len(chain.token_ids)
    for position in range(PROMPT, PROMPT + length):
        alive = moves[last] * (np.arange(len(chain.token_ids)) != chain.end)
        own = int(random.choice(len(alive), p=alive / alive.sum()))
        others = [int(w) for w in np.argsort(-alive) if alive[w] >= LEAST and w != own]
        tokens = [own, *others]
        share = alive[tokens] / alive[tokens].sum()
        key = {"question_id": question, "rollout": 0, "position": position}
        grid.append(grid_row(key, chain.token_ids[tokens].tolist(), share.tolist()))
        grid[-1]["dropped"] = float(1 - moves[last][tokens].sum())
        curve.append(share @ behind[tokens])
        for number in range(draws):
            drawn = range(len(tokens)) if each else [int(random.choice(len(tokens), p=share))]
            for branch in drawn:
                outcome = str(random.choice(labels, p=behind[tokens[branch]]))
                one = draw_rows(key, branch, number, outcome, length=1 + number)
                graded.append(one[0])
                continued.append(one[1])
        last = own
    return ChainCurve(
        grid=pa.Table.from_pylist(grid, GRID),
        outcomes=pa.Table.from_pylist(graded, OUTCOMES),
        continuations=pa.Table.from_pylist(continued, CONTINUATIONS),
        labels=labels,
        curve=np.array(curve),
    )


def grid_row(
    key: dict[str, Any],
    tokens: list[int],
    probabilities: list[float],
    *,
    on_grid: bool = True,
    drawn: bool = True,
) -> dict[str, Any]:
    return {
        **key,
        "on_grid": on_grid,
        "drawn": drawn,
        "tokens": tokens,
        "probabilities": probabilities,
        "dropped": 0.0,
    }


def draw_rows(
    key: dict[str, Any], branch: int, draw: int, outcome: str, *, length: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the rows of OUTCOMES and CONTINUATIONS of one draw."""
    named = {**key, "pass": "curve", "arm": f"branch-{branch}", "draw": draw}
    graded = named | {"outcome": outcome, "correct": outcome == "A"}
    continued = named | {
        "seed": 1,
        "state": "snapshot",
        "token_ids": [5] * length,
        "finish_reason": "stop",
        "first_logprob": None,
        "cached_tokens": 0,
        "recomputed_tokens": 0,
        "fidelity": None,
    }
    return graded, continued

"""Stage lay_grid: where the outcome curve of a rollout is estimated, and the branches there."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refork.data.schemas import GRID
from refork.data.tables import Row, from_rows
from refork.stats.curves.branches import Branches, BranchRule, Sampling, find_branches
from refork.tasks.sentences import SentenceFinder


def questions_with_curves(stage: Mapping[str, Any], questions: pa.Table) -> list[str]:
    """Name the questions that get curves: the first so many, in the order of the study."""
    names = list(dict.fromkeys(questions["question_id"].to_pylist()))
    return names[: stage["settings"]["curves"]["questions"]]


def lay_grid(
    stage: Mapping[str, Any],
    rollouts: pa.Table,
    model_folder: Path,
    question_ids: Collection[str],
) -> pa.Table:
    """Lay the grid of every rollout that gets a curve, in the order of the rollouts.

    These are the first `curves.rollouts` of each question in `question_ids`. Every generated token
    has a row, for curves need its branches whether it is on the grid or not.
    """
    curves = stage["settings"]["curves"]
    finder = SentenceFinder(model_folder) if curves["grid"] == "sentences" else None
    wanted = pc.is_in(rollouts["question_id"], pa.array(question_ids, pa.string()))
    chosen = rollouts.filter(pc.and_(wanted, pc.less(rollouts["rollout"], curves["rollouts"])))
    rows = [row for rollout in chosen.to_pylist() for row in _grid_rows(rollout, curves, finder)]
    return from_rows(rows, GRID)


def _grid_rows(rollout: Row, curves: Mapping[str, Any], finder: SentenceFinder | None) -> list[Row]:
    if not rollout["token_ids"]:
        return []
    branches = _branches(rollout, curves)
    on_grid = _on_grid(rollout["token_ids"], curves["stride"], finder)
    drawn = on_grid.copy()
    if curves["skip"]:
        # Where the next token is certain, the curve is that of the next position.
        drawn[:-1] &= (branches.count[:-1] > 1) | ~on_grid[1:]
    prompt_length = len(rollout["prompt_token_ids"])
    return [
        {
            "question_id": rollout["question_id"],
            "rollout": rollout["rollout"],
            "position": prompt_length + index,
            "on_grid": bool(on_grid[index]),
            "drawn": bool(drawn[index]),
            "tokens": branches.tokens[index, :count].tolist(),
            "probabilities": branches.probabilities[index, :count].tolist(),
            "dropped": float(branches.dropped[index]),
        }
        for index, count in enumerate(branches.count.tolist())
    ]


def _branches(rollout: Row, curves: Mapping[str, Any]) -> Branches:
    return find_branches(
        np.array(rollout["token_ids"], dtype=np.int64),
        np.array(rollout["logprobs"], dtype=np.float64),
        np.array(rollout["top_token_ids"], dtype=np.int64),
        np.array(rollout["top_logprobs"], dtype=np.float64),
        sampling=Sampling(curves["temperature"], curves["top_p"], curves["top_k"]),
        rule=BranchRule(curves["min_probability"], curves["max_branches"]),
    )


def _on_grid(token_ids: list[int], stride: int, finder: SentenceFinder | None) -> NDArray[np.bool_]:
    """Mark the tokens on the grid, shape [tokens]; the first one always is."""
    on_grid = np.zeros(len(token_ids), dtype=bool)
    on_grid[:: stride if finder is None else len(token_ids)] = True
    if finder is not None:
        on_grid[finder.starts(token_ids)] = True
    return on_grid

"""Stage smooth_curves: from draws to curves with error bars, steps and forks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from refork.data.schemas import CURVES, FORKS, STEPS
from refork.data.tables import from_rows
from refork.data.tuning_record import TuningRecord
from refork.errors import ReforkError
from refork.stages.curve_rows import Fitted, curve_table, fork_rows, step_rows
from refork.stages.curve_samples import rollout_draws
from refork.study.estimators import named_estimator

SEGMENTED = "full"
"""Estimator that finds change points where the one in use looks for none."""


@dataclass(frozen=True)
class Smoothed:
    """Outputs of the stage.

    Tables of `data.schemas`: CURVES, STEPS and FORKS. `left_out` names the rollouts without a curve
    and says why, for the manifest.
    """

    curves: pa.Table
    steps: pa.Table
    forks: pa.Table
    left_out: list[dict[str, Any]]


def smooth_curves(
    stage: Mapping[str, Any], grid: pa.Table, draws: pa.Table, tuning: TuningRecord
) -> Smoothed:
    """Smooth the curves of one shard by the estimator in use, and find their forks.

    Intervals, steps and the forks of source `posterior` come from joint draws of whole curves, so
    an estimator that has none gives none of them. Forks of source `change_point` are those of the
    estimator itself, or of `full` where it looks for none.

    Parameters
    ----------
    stage
        The record that was hashed.
    grid, draws
        Tables of `data.schemas`, GRID and DRAWS, of the shard.
    tuning
        The choice of the study.

    Raises
    ------
    ReforkError
        The tables do not fit, or the draws of a rollout cannot be fitted; the message names it.
    """
    settings = stage["settings"]["smoothing"]
    estimator, segmented = (
        named_estimator(name, folds=tuning.folds) for name in (tuning.estimator, SEGMENTED)
    )
    rollouts, left_out = rollout_draws(grid, draws)
    curves = [CURVES.empty_table()]
    steps, forks = [], []
    for of_rollout in rollouts:
        try:
            fitted = Fitted.of(of_rollout, estimator, segmented, settings)
        except ReforkError as error:
            question_id, rollout = of_rollout.key
            raise ReforkError(f"question {question_id!r}, rollout {rollout}: {error}") from error
        curves.append(curve_table(fitted, settings["level"]))
        steps += step_rows(fitted, settings["epsilon"])
        forks += fork_rows(fitted, settings["epsilon"], settings["fork_probability"])
    return Smoothed(
        curves=pa.concat_tables(curves),
        steps=from_rows(steps, STEPS),
        forks=from_rows(forks, FORKS),
        left_out=[one.model_dump() for one in left_out],
    )

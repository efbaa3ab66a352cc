"""The stages of a variant's outcome curves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refork.data.schemas import CURVE
from refork.study.config import Settings
from refork.study.stage import Stage, by_name, engine_settings, exact_state, locked_engine

_GRID = ("questions", "rollouts", "grid", "stride", "min_probability", "max_branches", "skip")
_SAMPLING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True)
class CurveStages:
    """The stages of outcome curves, in the order of the data; `draws` is a stage `resample`."""

    grid: Stage
    draws: Stage
    outcomes: Stage
    estimates: Stage
    tuning: Stage
    smooth: Stage

    def all(self) -> list[Stage]:
        """Return the stages in the order of the data."""
        return [self.grid, self.draws, self.outcomes, self.estimates, self.tuning, self.smooth]


def curve_stages(
    settings: Settings, lock: Mapping[str, Any], model: Stage, questions: Stage, rollouts: Stage
) -> CurveStages | None:
    """Lay out the stages of a variant's curves; None where no question gets one."""
    curves = settings.curves
    if curves.questions == 0:
        return None
    grid = Stage(
        "lay_grid",
        {"curves": curves.model_dump(include={*_GRID, *_SAMPLING})},
        by_name(model, questions, rollouts),
    )
    draws = _draws_stage(settings, lock, by_name(model, rollouts, grid))
    by_pass = {f"resample.{CURVE}": draws}
    outcomes = Stage(
        "grade_outcomes",
        {"grading": settings.grading.model_dump(), "continuations": curves.continuations},
        by_name(model, questions, rollouts, grid) | by_pass,
    )
    estimates = Stage(
        "estimate_curves",
        {"curves": {"branches": curves.branches}},
        by_name(outcomes, grid) | by_pass,
    )
    smoothing = settings.smoothing
    tuning = Stage(
        "tune_smoothing",
        {"smoothing": smoothing.model_dump(include={"estimator", "candidates", "folds"})},
        by_name(estimates, grid),
    )
    smooth = Stage(
        "smooth_curves",
        {
            "smoothing": smoothing.model_dump(exclude={"estimator", "candidates", "folds"})
            | {"seed": settings.seed}
        },
        by_name(estimates, grid, tuning),
    )
    return CurveStages(grid, draws, outcomes, estimates, tuning, smooth)


def _draws_stage(
    settings: Settings, lock: Mapping[str, Any], upstream: Mapping[str, Stage]
) -> Stage:
    curves = settings.curves
    state = exact_state(lock["engine"]) if curves.state == "exact" else curves.state
    return Stage(
        "resample",
        {
            "seed": settings.seed,
            "engine": engine_settings(settings, lock),
            "resample": curves.model_dump(include={*_SAMPLING, "max_tokens"}),
            "curves": {"branches": curves.branches},
            "pass": {"name": CURVE, "state": state, "order_seed": None, "seed": None},
        },
        upstream,
        {"engine": locked_engine(lock)},
    )

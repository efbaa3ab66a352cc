"""What a fit says of a rollout's curves, as rows of tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refork.data.schemas import CURVES
from refork.data.tables import Row
from refork.engines.seeds import request_seed
from refork.stages.curve_samples import RolloutDraws
from refork.stats.curves.estimator import Estimator, Fit
from refork.stats.curves.fork_scores import Sampled
from refork.stats.curves.forks import find_forks, first_fork, intervals, jump_probability
from refork.stats.curves.reference import total_variation
from refork.stats.curves.sample import Collapsed
from refork.stats.curves.skipped import Skipped

Floats = NDArray[np.float64]

POSTERIOR, CHANGE_POINT = "posterior", "change_point"
"""Sources of forks."""


@dataclass(frozen=True)
class Fitted:
    """The curves of one rollout at the P positions of its grid, in all K outcomes.

    Attributes
    ----------
    draws
        What was fitted.
    share, sd
        Shape (P, K); no deviations where the estimator has no error bars.
    joint
        Shape (curves drawn, P, K): draws of whole curves; None where the estimator has none.
    segments
        The fit whose change points are forks, and the way back from its categories.
    """

    draws: RolloutDraws
    share: Floats
    sd: Floats | None
    joint: Floats | None
    segments: tuple[Fit, Collapsed]

    @classmethod
    def of(
        cls,
        draws: RolloutDraws,
        estimator: Estimator,
        segmented: Estimator,
        settings: Mapping[str, Any],
    ) -> "Fitted":
        """Fit both; `settings` are those of `smoothing`."""
        collapsed = draws.collapsed()
        sample = collapsed.sample
        fit = estimator.fit(sample)
        sd = fit.sd(sample.positions)
        joint = None
        if isinstance(fit, Sampled):
            seed = request_seed(settings["seed"], *draws.key, 0, 0, arm="smoothing")
            joint = _expand(collapsed, fit.draws(settings["curves_drawn"], seed))
        return cls(
            draws=draws,
            share=_expand(collapsed, fit.mean(sample.positions)),
            sd=None if sd is None else _expand(collapsed, sd),
            joint=joint,
            segments=(fit if fit.change_points is not None else segmented.fit(sample), collapsed),
        )


def curve_table(fitted: Fitted, level: float) -> pa.Table:
    """Give the rows of `data.schemas.CURVES`, position by position."""
    draws, sample = fitted.draws, fitted.draws.sample
    size, categories = sample.counts.shape
    total = sample.counts.sum(axis=1, keepdims=True)
    raw = np.divide(sample.counts, total, out=np.full_like(sample.counts, np.nan), where=total > 0)
    low, high = (None, None) if fitted.joint is None else intervals(fitted.joint, level)
    columns = {
        "question_id": pa.array([draws.key[0]] * (size * categories), pa.string()),
        "rollout": np.full(size * categories, draws.key[1]),
        "position": np.repeat(draws.positions, categories),
        "outcome": pa.array(list(draws.outcomes) * size, pa.string()),
        "draws": np.repeat(sample.draws, categories),
        "raw": _optional(raw, raw.size),
        "share": fitted.share.ravel(),
        "sd": _optional(fitted.sd, raw.size),
        "low": _optional(low, raw.size),
        "high": _optional(high, raw.size),
    }
    return pa.table(columns).select(CURVES.names).cast(CURVES)


def step_rows(fitted: Fitted, epsilons: Sequence[float]) -> list[Row]:
    """Give the rows of `data.schemas.STEPS`, one ε after the other."""
    positions = fitted.draws.positions.tolist()
    rows = []
    for epsilon in epsilons:
        none: list[float | None] = [None] * (len(positions) - 1)
        probability, first = none, none
        if fitted.joint is not None:
            probability = jump_probability(fitted.joint, epsilon).tolist()
            first = first_fork(fitted.joint, epsilon).tolist()
        rows += [
            {
                **_key(fitted.draws),
                "position": positions[step],
                "next_position": positions[step + 1],
                "epsilon": epsilon,
                "probability": probability[step],
                "first": first[step],
            }
            for step in range(len(positions) - 1)
        ]
    return rows


def fork_rows(fitted: Fitted, epsilons: Sequence[float], least: float) -> list[Row]:
    """Give the rows of `data.schemas.FORKS`: of the posterior by ε, then the change points."""
    joint, positions = fitted.joint, fitted.draws.positions
    if joint is None:
        return _change_points(fitted)
    rows = [
        {
            **_key(fitted.draws),
            "source": POSTERIOR,
            "epsilon": epsilon,
            "first": fork.first,
            "last": fork.last,
            "probability": fork.probability,
            "distance": fork.distance,
        }
        for epsilon in epsilons
        for fork in find_forks(joint, positions, epsilon, least=least)
    ]
    return rows + _change_points(fitted)


def _change_points(fitted: Fitted) -> list[Row]:
    """Give the change points with how far the curve that they cut moves there.

    A segment begins at a position with draws. Skipped ones right before it have its curve, so the
    curve moves in the step that leads to the first of them.
    """
    fit, collapsed = fitted.segments
    sample, first = collapsed.sample, fitted.draws.first
    skipped = Skipped.of(sample)
    stand_ins = skipped.stand_ins(sample.positions)
    curve = _expand(collapsed, fit.mean(sample.positions))
    rows = []
    for begin in fit.change_points if fit.change_points is not None else ():
        behind = int(np.argmax(stand_ins == begin))
        before = behind - 1
        rows.append(
            {
                **_key(fitted.draws),
                "source": CHANGE_POINT,
                "epsilon": None,
                "first": int(sample.positions[before]) + first,
                "last": int(sample.positions[behind]) + first,
                "probability": None,
                "distance": float(total_variation(curve[behind], curve[before])),
            }
        )
    return rows


def _key(draws: RolloutDraws) -> Row:
    return {"question_id": draws.key[0], "rollout": draws.key[1]}


def _expand(collapsed: Collapsed, curves: Floats) -> Floats:
    """Give curves of shape (…, K′) in all categories, shape (…, K)."""
    flat = collapsed.expand(curves.reshape(-1, curves.shape[-1]))
    return flat.reshape(*curves.shape[:-1], flat.shape[1])


def _optional(values: Floats | None, size: int) -> pa.Array:
    """Make a column of all values row by row, null where there is none."""
    if values is None:
        return pa.nulls(size, pa.float64())
    return pa.array(values.ravel(), mask=np.isnan(values.ravel()))

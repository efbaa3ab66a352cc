"""Stage tune_smoothing: from draws to the scores of the estimators and the one in use."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from refork.data.tuning_record import CandidateScore, RolloutScore, TuningRecord
from refork.errors import ReforkError
from refork.stages.curve_samples import RolloutDraws, rollout_draws
from refork.stats.curves.estimator import Estimator
from refork.stats.curves.sample import CurveSample
from refork.stats.curves.tuning import held_out_score, split
from refork.study.estimators import AUTO, named_estimator


def tune_smoothing(stage: Mapping[str, Any], grid: pa.Table, draws: pa.Table) -> TuningRecord:
    """Score the candidates by the log-likelihood of held-out draws, and choose where asked to.

    Parameters
    ----------
    stage
        The record that was hashed.
    grid, draws
        Tables of `data.schemas`, GRID and DRAWS, of all shards.

    Raises
    ------
    ReforkError
        An estimator's name or a hyper-parameter of it is wrong, there is no candidate to choose,
        or the tables do not fit.
    """
    settings = stage["settings"]["smoothing"]
    folds: int = settings["folds"]
    if settings["estimator"] == AUTO and not settings["candidates"]:
        raise ReforkError("smoothing.candidates: []; where the estimator is auto, one is needed")
    rollouts, left_out = rollout_draws(grid, draws)
    candidates = [
        _candidate(name, named_estimator(name, folds=folds), rollouts, folds)
        for name in settings["candidates"]
    ]
    estimator, why, how = _choice(settings["estimator"], candidates)
    named_estimator(estimator, folds=folds)
    return TuningRecord(
        estimator=estimator, why=why, how=how, folds=folds, candidates=candidates, left_out=left_out
    )


def _candidate(
    name: str, estimator: Estimator, rollouts: Sequence[RolloutDraws], folds: int
) -> CandidateScore:
    """Score one candidate on every rollout; its score over all is that of an average draw."""
    scores = [_rollout_score(estimator, of_rollout, folds) for of_rollout in rollouts]
    nats = 0.0
    reason = None if scores else "no rollout has a curve"
    for score in scores:
        if score.nats_per_draw is None:
            reason = reason or f"question {score.question_id!r}, rollout {score.rollout}: " + str(
                score.reason
            )
        else:
            nats += score.nats_per_draw * score.draws
    total = sum(score.draws for score in scores)
    return CandidateScore(
        estimator=name,
        nats_per_draw=None if reason else nats / total,
        reason=reason,
        rollouts=scores,
    )


def _rollout_score(estimator: Estimator, of_rollout: RolloutDraws, folds: int) -> RolloutScore:
    sample = of_rollout.collapsed().sample
    number = len(sample.place)
    chosen, nats, reason = None, None, None
    try:
        chosen = dict(estimator.fit(sample).chosen)
        nats = _held_out(estimator, sample, folds)
    except ReforkError as error:
        reason = str(error)
    if nats is not None and not np.isfinite(nats):
        nats, reason = None, "a held-out draw had an outcome that the curve holds impossible"
    return RolloutScore(
        question_id=of_rollout.key[0],
        rollout=of_rollout.key[1],
        draws=number,
        chosen=chosen,
        nats_per_draw=None if nats is None else nats / number,
        reason=reason,
    )


def _held_out(estimator: Estimator, sample: CurveSample, folds: int) -> float:
    """Hold out every draw once; the log-likelihood of all of them, in nats."""
    used = min(folds, int(sample.draws.max()))
    if used < 2:
        raise ReforkError("one draw a position cannot be cross-validated")
    return sum(held_out_score(estimator, fold) for fold in split(sample, used))


def _choice(
    asked: str, candidates: Sequence[CandidateScore]
) -> tuple[str, Literal["given", "auto"], str]:
    """Give the estimator in use, how it came to be, and that in words."""
    if asked != AUTO:
        return asked, "given", f"{asked} is given by the config"
    scored = {
        one.estimator: one.nats_per_draw for one in candidates if one.nats_per_draw is not None
    }
    if not scored:
        first = candidates[0].estimator
        return first, "auto", f"{first} is the first candidate; none could be scored"
    best = max(scored, key=scored.__getitem__)
    return best, "auto", f"{best} has the highest held-out log-likelihood a draw"

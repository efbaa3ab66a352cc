"""The outcome curves of a variant made by hand: shares that step at known places."""

from itertools import pairwise

import numpy as np

from helpers.made_variants import PROMPT, Row, Vocabulary
from refork.data.schemas import CURVES, DRAWS, FORKS, GRID, STEPS
from refork.data.tables import from_rows
from refork.data.tuning_record import CandidateScore, LeftOut, RolloutScore, TuningRecord
from refork.report.curve_data import CurveData
from refork.report.study_data import VariantData

DRAWN = 10
EPSILONS = [0.1, 0.2]
HOSTILE_OUTCOME = "<i>x</i>\u202e$_{"
OUTCOMES = ("36", HOSTILE_OUTCOME, "other", "truncated")
STEPS_AT = (2, 5, 6)
"""Tokens of the rollout over which the curve moves."""


def made_curves(
    variant: VariantData,
    vocabulary: Vocabulary,
    *,
    rollouts: int = 2,
    stride: int = 1,
    bars: bool = True,
) -> CurveData:
    """Make the curves of a variant's first rollouts; without bars, as of a kernel."""
    rows = variant.rollouts.slice(0, rollouts).to_pylist()
    random = np.random.default_rng(3)
    parts: dict[str, list[Row]] = {name: [] for name in ("grid", "draws", "curves", "steps")}
    forks: list[Row] = []
    for row in rows:
        key = {"question_id": row["question_id"], "rollout": row["rollout"]}
        grid = _grid(key, row["token_ids"], stride, vocabulary)
        parts["grid"] += grid
        on = [item["position"] for item in grid if item["on_grid"]]
        for position in on:
            share = _share(position - len(PROMPT))
            drawn = random.choice(len(OUTCOMES), size=DRAWN, p=share)
            parts["draws"] += _draws({**key, "position": position}, drawn)
            parts["curves"] += _curve({**key, "position": position}, share, drawn, bars)
        parts["steps"] += _steps(key, on, bars)
        forks += _forks(key, on, bars)
    name = "forkhmm" if bars else "kernel"
    return CurveData(
        grid=from_rows(parts["grid"], GRID),
        draws=from_rows(parts["draws"], DRAWS),
        curves=from_rows(parts["curves"], CURVES),
        steps=from_rows(parts["steps"], STEPS),
        forks=from_rows(forks, FORKS),
        tuning=made_tuning(name),
        smoothing={"level": 0.8, "epsilon": EPSILONS, "fork_probability": 0.5},
        branches="mixture",
    )


def made_tuning(name: str) -> TuningRecord:
    """Make a choice among three estimators, one of them impossible; one rollout has no curve."""
    score = RolloutScore(
        question_id="q00", rollout=0, draws=90, chosen={}, nats_per_draw=-0.8125, reason=None
    )
    reason = "a held-out draw had an outcome that the curve holds impossible"
    lower = score.model_copy(update={"nats_per_draw": -0.9})
    none = score.model_copy(update={"nats_per_draw": None, "reason": reason})
    scored = (("forkhmm", score), ("kernel", lower), ("raw", none))
    return TuningRecord(
        estimator=name,
        why="given",
        how=f"{name} is given by the config",
        folds=5,
        candidates=[
            CandidateScore(
                estimator=estimator,
                nats_per_draw=one.nats_per_draw,
                reason=one.reason,
                rollouts=[one],
            )
            for estimator, one in scored
        ],
        left_out=[LeftOut(question_id="q<b>9", rollout=0, reason="1 position has draws")],
    )


def _grid(key: Row, ids: list[int], stride: int, vocabulary: Vocabulary) -> list[Row]:
    other = vocabulary.add(" <u>or</u>\u202e")
    return [
        {
            **key,
            "position": len(PROMPT) + place,
            "on_grid": place % stride == 0,
            "drawn": place % stride == 0,
            "tokens": [token, other] if place in STEPS_AT else [token],
            "probabilities": [0.625, 0.375] if place in STEPS_AT else [1.0],
            "dropped": 0.0,
        }
        for place, token in enumerate(ids)
    ]


def _share(place: int) -> list[float]:
    """Give the shares before the token at a place is chosen."""
    moved = sum(place > step for step in STEPS_AT)
    return [[0.3, 0.4, 0.2, 0.1], [0.5, 0.3, 0.1, 0.1], [0.5, 0.4, 0.1, 0.0], [0.9, 0.1, 0, 0]][
        moved
    ]


def _draws(key: Row, drawn: np.ndarray) -> list[Row]:
    return [
        {
            **key,
            "branch": 0,
            "draw": draw,
            "outcome": OUTCOMES[outcome],
            "weight": 1.0,
            "length": 7,
        }
        for draw, outcome in enumerate(drawn.tolist())
    ]


def _curve(key: Row, share: list[float], drawn: np.ndarray, bars: bool) -> list[Row]:
    counts = np.bincount(drawn, minlength=len(OUTCOMES)).tolist()
    return [
        {
            **key,
            "outcome": outcome,
            "draws": DRAWN,
            "raw": count / DRAWN,
            "share": one,
            "sd": 0.05 if bars else None,
            "low": max(0.0, one - 0.07) if bars else None,
            "high": min(1.0, one + 0.07) if bars else None,
        }
        for outcome, one, count in zip(OUTCOMES, share, counts, strict=True)
    ]


def _steps(key: Row, on: list[int], bars: bool) -> list[Row]:
    """Half of all rollouts fork first in the first step that moves, a quarter in the second."""
    left, rows = 1.0, []
    for position, following in pairwise(on):
        moves = any(position <= len(PROMPT) + step < following for step in STEPS_AT)
        chance = 0.5 if moves else 0.0
        known = {"probability": chance, "first": left * chance} if bars else {}
        rows += [
            {**key, "position": position, "next_position": following, "epsilon": epsilon, **known}
            for epsilon in EPSILONS
        ]
        left *= 1 - chance
    return rows


def _forks(key: Row, on: list[int], bars: bool) -> list[Row]:
    """Make a fork at the first place at both ε, a wider one at 0.1; a change point later."""

    def step(place: int) -> tuple[int, int]:
        position = len(PROMPT) + place
        return max(p for p in on if p <= position), min(p for p in on if p > position)

    first, second = step(STEPS_AT[0]), step(STEPS_AT[-1])
    found = [
        (0.2, first, 0.75, 0.25),
        (0.1, (first[0] - (first[0] > on[0]), first[1]), 0.875, 0.3125),
    ]
    posterior = [
        {**key, "source": "posterior", "epsilon": e, "first": a, "last": b, "probability": p,
         "distance": d}
        for e, (a, b), p, d in found
    ]  # fmt: skip
    point = {
        **key,
        "source": "change_point",
        "epsilon": None,
        "first": second[0],
        "last": second[1],
        "probability": None,
        "distance": 0.4375,
    }
    return [*(posterior if bars else []), point]

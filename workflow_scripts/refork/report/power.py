"""The power study as one JSON object."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refork.report.power_forks import Reasons, fork_records
from refork.stats.bootstrap import CONFIDENCE
from refork.stats.curves.fork_scores import ForkScores
from refork.stats.curves.noise_law import Bounded, NoiseLaw
from refork.stats.curves.power import SECONDS, Measurement, Setting
from refork.stats.curves.scores import (
    FLAT,
    JUMPS,
    L2,
    LOGLIK,
    TVD,
    PairedDifference,
    Scores,
    effective_samples,
    over_questions,
    paired_difference,
)
from refork.stats.missing import Missing

COMPARED = (TVD, *JUMPS.values(), FLAT, L2, LOGLIK)
"""Errors that are compared with the first estimator's."""


@dataclass(frozen=True)
class Measured:
    """Every question, in one order, of one track and setting, by estimator."""

    track: str
    setting: Setting
    questions: Mapping[str, list[Measurement]]
    forks: Mapping[str, ForkScores] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, list[Scores]]:
        """Scores alone."""
        return {
            name: [one.scores for one in questions] for name, questions in self.questions.items()
        }

    @property
    def key(self) -> dict[str, Any]:
        """What names a cell, but for its estimator."""
        return {
            "track": self.track,
            "stride": self.setting.stride,
            "samples": self.setting.samples,
        }


def power_record(
    measured: Sequence[Measured], laws: Mapping[str, NoiseLaw | Missing], replicates: int
) -> dict[str, Any]:
    """Return the cells, the paired differences from the first estimator, and the tracks' noise law.

    Errors are means over questions, of means over replicates; `ess` is how many times the samples
    raw draws would need for the same debiased squared error `l2`, `loglik` nats a held-out draw,
    `seconds` processor time of one fit. What does not exist is null, and `reasons` says why.
    """
    reasons = Reasons()
    cells: list[dict[str, Any]] = []
    paired: list[dict[str, Any]] = []
    for one in measured:
        by_name = one.scores
        baseline = next(iter(by_name))
        for name, scores in by_name.items():
            cells.append(_cell(one, name, scores, f"cells[{len(cells)}]", reasons))
            if name != baseline:
                path = f"paired[{len(paired)}]"
                differences = {
                    error: _difference(
                        paired_difference(scores, by_name[baseline], error),
                        f"{path}.{error}",
                        reasons,
                    )
                    for error in COMPARED
                }
                paired.append({**one.key, "estimator": name, "against": baseline, **differences})
    return {
        "cells": cells,
        "paired": paired,
        "noise_law": {
            track: _law(law, f"noise_law.{track}", reasons) for track, law in laws.items()
        },
        **fork_records([(one.key, one.forks) for one in measured], reasons),
        "selection": [
            {**one.key, "estimator": name, "fits": dict(_fits(questions))}
            for one in measured
            for name, questions in one.questions.items()
        ],
        "confidence": CONFIDENCE,
        "replicates": replicates,
        "questions": {one.track: len(scores) for one in measured for scores in one.scores.values()},
        "reasons": reasons.found,
    }


def _cell(
    measured: Measured, name: str, scores: list[Scores], path: str, reasons: Reasons
) -> dict[str, Any]:
    def mean(error: str) -> float | None:
        return reasons.value(over_questions(scores, error), f"{path}.{error}")

    multiplier = effective_samples(scores, measured.setting.samples)
    return {
        **measured.key,
        "estimator": name,
        **{error: mean(error) for error in (TVD, *JUMPS.values(), FLAT, L2)},
        "ess": reasons.value(multiplier, f"{path}.ess"),
        **{error: mean(error) for error in (LOGLIK, SECONDS)},
    }


def _fits(questions: Sequence[Measurement]) -> Counter[str]:
    """Count the fits by how they came to their hyper-parameters."""
    return Counter(selection for one in questions for selection in one.selections)


def _difference(difference: PairedDifference, path: str, reasons: Reasons) -> dict[str, Any]:
    return {
        "questions": difference.questions,
        **{
            part: reasons.value(getattr(difference, part), f"{path}.{part}")
            for part in ("mean", "low", "high")
        },
    }


def _law(law: NoiseLaw | Missing, path: str, reasons: Reasons) -> dict[str, Any] | None:
    if isinstance(law, Missing):
        reasons.found[path] = law.reason
        return None
    return {
        "questions": law.questions,
        "samples": list(law.samples),
        "tvd": list(law.distance),
        "multinomial_tvd": list(law.null),
        "ratio": [
            _bounded(ratio, f"{path}.ratio[{at}]", reasons) for at, ratio in enumerate(law.ratio)
        ],
        "slope": _bounded(law.slope, f"{path}.slope", reasons),
        "multinomial_slope": reasons.value(law.null_slope, f"{path}.multinomial_slope"),
    }


def _bounded(figure: Bounded, path: str, reasons: Reasons) -> dict[str, Any]:
    return {
        part: reasons.value(getattr(figure, part), f"{path}.{part}")
        for part in ("value", "low", "high")
    }

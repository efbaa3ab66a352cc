"""What the power study says of forks, of jump probabilities and of intervals, as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refork.stats.curves.fork_scores import ForkScores, Reliability
from refork.stats.missing import Missing, Quantity

Key = Mapping[str, Any]


@dataclass
class Reasons:
    """Why a figure is null, by its path."""

    found: dict[str, str] = field(default_factory=dict)

    def value(self, quantity: Quantity, path: str) -> float | None:
        """Return a figure as JSON has it, and keep the reason where there is none."""
        if isinstance(quantity, Missing):
            self.found[path] = quantity.reason
            return None
        return quantity


def fork_records(
    measured: Sequence[tuple[Key, Mapping[str, ForkScores]]], reasons: Reasons
) -> dict[str, list[dict[str, Any]]]:
    """Return `forks`, `calibration` and `coverage`, each a list of records by setting.

    Only estimators that report forks have any, and only those with a posterior the last two.
    """
    scored = [
        ({**key, "estimator": name}, scores)
        for key, by_name in measured
        for name, scores in by_name.items()
        if scores.fits
    ]
    forks: list[dict[str, Any]] = []
    coverage: list[dict[str, Any]] = []
    for key, scores in scored:
        for (epsilon, within), matches in scores.matches.items():
            path = f"forks[{len(forks)}]"
            forks.append(
                {
                    **key,
                    "epsilon": epsilon,
                    "within": within,
                    "reported": matches.reported,
                    "jumps": matches.jumps,
                    "precision": reasons.value(matches.precision, f"{path}.precision"),
                    "recall": reasons.value(matches.recall, f"{path}.recall"),
                }
            )
        for nominal, one in scores.coverage.items():
            if one.seen:
                record = {**key, "nominal": nominal, "categories": one.seen}
                path = f"coverage[{len(coverage)}]"
                curve = reasons.value(one.of_curve, f"{path}.curve")
                shares = reasons.value(one.of_shares, f"{path}.shares")
                coverage.append({**record, "curve": curve, "shares": shares})
    calibration = [
        {**key, "epsilon": epsilon, "bins": list(_bins(reliability))}
        for key, scores in scored
        for epsilon, reliability in scores.reliability.items()
        if reliability.steps.any()
    ]
    return {"forks": forks, "calibration": calibration, "coverage": coverage}


def _bins(reliability: Reliability) -> Iterator[dict[str, Any]]:
    """Give the bins that hold steps: mean probability of a jump, and share of steps with one."""
    for steps, probability, jumped in zip(
        reliability.steps, reliability.probability, reliability.jumped, strict=True
    ):
        if steps:
            yield {
                "steps": int(steps),
                "probability": float(probability / steps),
                "jumped": float(jumped / steps),
            }

"""How the completions of a variant ended: right, wrong, without an answer, cut."""

from dataclasses import dataclass

import pandas as pd

from refork.report.study_data import VariantData
from refork.report.wording import percent, whole
from refork.tasks.graders import OTHER, TRUNCATED

# From this share of continuations without an answer on, credit says little.
DOUBTFUL = 0.5


@dataclass(frozen=True)
class Completions:
    """Counts of the base rollouts, and shares of the continuations that have no answer."""

    rollouts: int
    right: int
    other: int
    truncated: int
    continuations_other: float
    continuations_truncated: float

    @property
    def in_words(self) -> str:
        """Say how the base rollouts ended."""
        return (
            f"Of {whole(self.rollouts)} base rollouts {whole(self.right)} are right, "
            f"{whole(self.other)} without an answer, "
            f"{whole(self.truncated)} cut by the token limit."
        )

    @property
    def doubt(self) -> str | None:
        """Say why credit may mean little here; None where it may not."""
        without = self.continuations_other + self.continuations_truncated
        if without < DOUBTFUL:
            return None
        return (
            f"{percent(without, 0)} of the continuations have no answer: "
            f"{percent(self.continuations_truncated, 0)} were cut by the token limit "
            f"(resample.max_tokens), {percent(self.continuations_other, 0)} say none. "
            "Credit among them is 0, whatever the token."
        )


def completions(variant: VariantData) -> Completions:
    """Count the outcomes of a variant's base rollouts and continuations."""
    frame = variant.outcomes.select(["position", "outcome", "correct"]).to_pandas()
    base = frame["position"].isna()
    outcome, continued = frame.loc[base, "outcome"], frame.loc[~base, "outcome"]
    return Completions(
        rollouts=len(outcome),
        right=int(frame.loc[base, "correct"].sum()),
        other=int((outcome == OTHER).sum()),
        truncated=int((outcome == TRUNCATED).sum()),
        continuations_other=_share(continued == OTHER),
        continuations_truncated=_share(continued == TRUNCATED),
    )


def _share(chosen: pd.Series) -> float:
    return float(chosen.mean()) if len(chosen) else 0.0

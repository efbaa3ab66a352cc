"""How far every pass agrees with the reference, and what the instrument says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from refork.report.frames import credit_frames
from refork.report.matching import (
    changed_credits,
    continuation_frame,
    outcome_frame,
    same_draws,
)
from refork.report.study_data import VariantData


@dataclass(frozen=True)
class PassRow:
    """One pass of one variant; shares are in [0, 1] and null where nothing was recorded.

    `same_tokens` and `same_outcomes` are shares of the continuations that the reference has too;
    `credit_changed` counts pivots among the `credit_eligible`: those with a credit in either pass.
    `cached` is the share of pivots whose every request was served from the decode-time state,
    `recomputed` the mean number of tokens fed again a request, `fidelity` the largest
    |Δ log-probability| against the recording, in nat.
    """

    variant: str
    name: str
    state: str
    is_reference: bool
    continuations: int
    same_tokens: float | None
    same_outcomes: float | None
    credit_changed: int | None
    credit_eligible: int | None
    truncated_actual: float | None
    truncated_alt: float | None
    cached: float | None
    recomputed: float | None
    fidelity: float | None

    @property
    def agrees(self) -> bool:
        """Whether everything that was compared is equal, and something was compared."""
        compared = [share for share in (self.same_tokens, self.same_outcomes) if share is not None]
        return bool(compared) and min(compared) == 1 and not self.credit_changed


def pass_rows(variant: VariantData) -> list[PassRow]:
    """Compare every pass of a variant with its reference."""
    outcomes = outcome_frame(variant)
    continuations = continuation_frame(variant)
    credits = credit_frames(variant).credit
    return [_pass_row(variant, item, outcomes, continuations, credits) for item in variant.passes]


def _pass_row(
    variant: VariantData,
    settings: Mapping[str, Any],
    outcomes: pd.DataFrame,
    continuations: pd.DataFrame,
    credits: pd.DataFrame,
) -> PassRow:
    name, reference = settings["name"], variant.reference
    own_outcomes = outcomes[outcomes["pass"] == name]
    changed, eligible = _credit_changed(credits, reference, name)
    cut = own_outcomes["outcome"].eq("truncated").groupby(own_outcomes["arm"]).mean()
    requests = continuations[continuations["pass"] == name]
    return PassRow(
        variant=variant.name,
        name=name,
        state=settings["state"],
        is_reference=name == reference,
        continuations=len(own_outcomes),
        same_tokens=_same(continuations, "tokens", reference, name),
        same_outcomes=_same(outcomes, "outcome", reference, name),
        credit_changed=changed,
        credit_eligible=eligible,
        truncated_actual=_number(cut.get("actual")),
        truncated_alt=_number(cut.get("alt")),
        cached=_cached(variant.credits, name),
        recomputed=_number(requests["recomputed_tokens"].mean()),
        fidelity=_number(requests["fidelity"].max()),
    )


def _same(frame: pd.DataFrame, value: str, reference: str, name: str) -> float | None:
    if name == reference:
        return None
    return _number(same_draws(frame, value, reference, name).mean())


def _credit_changed(
    credits: pd.DataFrame, reference: str, name: str
) -> tuple[int | None, int | None]:
    if name == reference or not {name, reference} <= set(credits.columns):
        return None, None
    changed = changed_credits(credits, reference, name)
    return int(changed.sum()), len(changed)


def _cached(credits: pa.Table, name: str) -> float | None:
    frame = credits.select(["pass", "cached"]).to_pandas()
    return _number(frame.loc[frame["pass"] == name, "cached"].dropna().astype(float).mean())


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)

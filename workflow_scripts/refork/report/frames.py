"""Credits side by side: a row a pivot, a column a pass, and the fate of each credit's sign."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from refork.report.study_data import VariantData
from refork.report.summary import ROLES, Summary
from refork.stats.credit import credits_from_counts, eligible

PIVOT = ["question_id", "rollout", "position"]
KEPT, CROSSING, REVERSAL = "sign kept", "zero crossing", "polarity reversal"
FATES = (KEPT, CROSSING, REVERSAL)
_COUNTS = ["right_actual", "draws_actual", "right_alt", "draws_alt"]


@dataclass(frozen=True)
class CreditFrames:
    """Credits and their signs: rows are pivots (key and margin as index), columns are passes."""

    credit: pd.DataFrame
    sign: pd.DataFrame

    def fates(self, reference: str, name: str) -> pd.Series:
        """Tell whether the sign of each pivot's credit is kept, crosses zero or is reversed."""
        before, after = self.sign[reference].to_numpy(), self.sign[name].to_numpy()
        fate = np.select([before == after, before * after == 0], [KEPT, CROSSING], REVERSAL)
        return pd.Series(fate, index=self.sign.index, name="fate")


def credit_frames(variant: VariantData) -> CreditFrames:
    """Lay the credits of all passes side by side; pivots that a pass lacks are left out."""
    frame = variant.credits.select([*PIVOT, "margin", "pass", "credit", *_COUNTS]).to_pandas()
    counts = frame[_COUNTS].fillna(0).to_numpy(dtype=np.int64).T
    frame["sign"] = credits_from_counts(
        counts[0], counts[1], counts[2], counts[3], known=frame["credit"].to_numpy()
    ).sign
    wide = frame.pivot(index=[*PIVOT, "margin"], columns="pass", values=["credit", "sign"])
    known = [item["name"] for item in variant.passes if item["name"] in set(frame["pass"])]
    if not known:
        empty = pd.DataFrame(index=wide.index)
        return CreditFrames(empty, empty)
    whole = wide.dropna()
    return CreditFrames(whole["credit"][known], whole["sign"][known].astype(int))


def comparison_frame(frames: CreditFrames, summary: Summary) -> pd.DataFrame:
    """Return the eligible pivots of one comparison, once for its treatment and once for its floor.

    Columns: role, margin, reference (its credit), credit, fate.
    """
    names = summary.names
    ordered = [names.reference, names.floor, names.treatment]
    if not set(ordered) <= set(frames.sign.columns):
        return pd.DataFrame(columns=["role", "margin", "reference", "credit", "fate"])
    common = eligible(*(frames.sign[name].to_numpy() for name in ordered))
    parts = [
        pd.DataFrame(
            {
                "role": role,
                "margin": frames.credit.index.get_level_values("margin"),
                "reference": frames.credit[names.reference].to_numpy(),
                "credit": frames.credit[summary.name(role)].to_numpy(),
                "fate": frames.fates(names.reference, summary.name(role)).to_numpy(),
            }
        )[common]
        for role in ROLES
    ]
    return pd.concat(parts, ignore_index=True)

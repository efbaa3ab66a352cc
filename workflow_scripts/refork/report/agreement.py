"""How far every pass agrees with its variant's reference: rates with intervals, by problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from refork.errors import ReforkError
from refork.report.collect import collect_study
from refork.report.frames import credit_frames
from refork.report.matching import (
    changed_credits,
    continuation_frame,
    outcome_frame,
    same_draws,
)
from refork.report.study_data import StudyData, VariantData
from refork.stats.bootstrap import Interval, clustered_interval
from refork.stats.missing import Missing, Quantity, share
from refork.study.folders import read_record


@dataclass(frozen=True)
class Rate:
    """`part` of `whole` observations in so many problems, and the interval of that share."""

    part: int
    whole: int
    problems: int
    interval: Interval | Missing

    @property
    def value(self) -> Quantity:
        """The share, in [0, 1]."""
        return share(self.part, self.whole, "observations")


@dataclass(frozen=True)
class Agreement:
    """One pass of one variant against the variant's reference.

    Rates are over the continuations that both passes have (`same_tokens`, `same_outcomes`), the
    pivots with a credit in either pass (`changed_credits`), and the pivots with greedy probes
    (`same_probes`: both arms' tokens). `largest_delta` is the largest |Δ log-probability| of a
    probe's first token, in nat; null where there are no probes.
    """

    variant: str
    name: str
    settings: Mapping[str, Any]
    same_tokens: Rate
    same_outcomes: Rate
    changed_credits: Rate
    same_probes: Rate
    largest_delta: float | None

    @property
    def state(self) -> str:
        """How the state at the pivot is reached."""
        return str(self.settings["state"])

    @property
    def shuffled(self) -> bool:
        """Whether the requests come in another order than the reference's."""
        return self.settings.get("order_seed") is not None

    @property
    def plain(self) -> bool:
        """Whether it differs from the reference in nothing but state and order."""
        return all(self.settings.get(key) is None for key in ("seed", "batch_rows"))


def find_study(folder: Path) -> StudyData:
    """Collect the tables of a study that has run, from its readable folder `results/STUDY`.

    Raises
    ------
    ReforkError
        It is no such folder, or a table is absent or damaged.
    """
    if not folder.is_dir():
        raise ReforkError(f"{folder}: no such folder; give results/STUDY")
    report = (folder / "report.html").resolve()
    record = report.parent / "stage.json"
    if not record.exists():
        raise ReforkError(f"{folder}: not the folder of a study that was run; give results/STUDY")
    if not report.exists():
        raise ReforkError(f"{folder}: the study is not finished; run it to its end by snakemake")
    study, _ = collect_study(read_record(record), record.parents[2])
    return study


def agreement_rows(variant: VariantData) -> list[Agreement]:
    """Compare every pass but the reference with it."""
    outcomes, continuations = outcome_frame(variant), continuation_frame(variant)
    credits = credit_frames(variant).credit
    probes = variant.credits.select(["question_id", "pass", "probe_diverged", "probe_delta"])
    by_pass = dict(iter(probes.to_pandas().set_index("question_id").groupby("pass")))
    rows = []
    for settings in variant.passes[1:]:
        name, reference = settings["name"], variant.reference
        probed = by_pass.get(name, probes.schema.empty_table().to_pandas())
        diverged = probed["probe_diverged"].dropna().astype(bool)
        delta = probed["probe_delta"].max()
        rows.append(
            Agreement(
                variant=variant.name,
                name=name,
                settings=settings,
                same_tokens=_rate(
                    same_draws(continuations, "tokens", reference, name), "continuations"
                ),
                same_outcomes=_rate(same_draws(outcomes, "outcome", reference, name), "outcomes"),
                changed_credits=_rate(
                    changed_credits(credits, reference, name), "pivots with a credit"
                ),
                same_probes=_rate(~diverged, "greedy probes"),
                largest_delta=None if pd.isna(delta) else float(delta),
            )
        )
    return rows


def _rate(observed: pd.Series, of_what: str) -> Rate:
    """Rate of what is true, over problems: the questions in the index."""
    if observed.empty:
        return Rate(0, 0, 0, Missing(f"no {of_what}"))
    questions = observed.index.get_level_values(0).to_numpy()
    _, problem = np.unique(questions, return_inverse=True)
    whole = np.bincount(problem)
    part = np.bincount(problem[observed.to_numpy(dtype=bool)], minlength=len(whole))
    return Rate(
        part=int(part.sum()),
        whole=int(whole.sum()),
        problems=len(whole),
        interval=clustered_interval(part, whole),
    )

"""Forks of one rollout as a reader wants them: both sources side by side, with their tokens."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refork.data.schemas import RolloutKey
from refork.report.curve_data import CurveData
from refork.report.study_data import Decode
from refork.report.visible import token_label
from refork.report.wording import percent
from refork.stats.curves.forks import Survival, survival

_SHOWN_TOKENS = 3


@dataclass(frozen=True)
class Branches:
    """A token of a fork: what the rollout took there, and what else it could have taken."""

    position: int
    taken: str
    probability: float
    others: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ShownFork:
    """Forks that overlap, as one; the interval is that of the narrowest of them.

    A curve's value at a position is from before its token is chosen. What moves it from `first` to
    `last` are therefore the tokens at first ≤ t < last.

    Attributes
    ----------
    probability
        The highest of the posterior's forks, by ε; none where it reports none.
    distance
        Total variation over the interval.
    change_point
        Total variation at the change point; None where none is here.
    undecided
        The tokens with other branches, the least probable taken first; at most three.
    hidden
        How many more tokens have other branches.
    """

    number: int
    first: int
    last: int
    probability: Mapping[float, float]
    distance: float
    change_point: float | None
    undecided: tuple[Branches, ...]
    hidden: int

    @property
    def where(self) -> str:
        """Positions of its tokens."""
        end = self.last - 1
        return str(self.first) if end == self.first else f"{self.first}–{end}"

    @property
    def words(self) -> str:
        """All of it in one line, for a pointer that rests on it and for screen readers."""
        chances = ", ".join(
            f"{percent(p, 0)} at ε = {epsilon:g}" for epsilon, p in self.probability.items()
        )
        tokens = "; ".join(
            f"“{one.taken}” {percent(one.probability, 0)}, "
            + ", ".join(f"“{text}” {percent(p, 0)}" for text, p in one.others)
            for one in self.undecided
        )
        return (
            f"Fork {self.number} at {self.where}. Probability: {chances or 'none'}. "
            f"Tokens: {tokens or 'no other branch'}."
        )


def shown_forks(curves: CurveData, key: RolloutKey, decode: Decode) -> list[ShownFork]:
    """Join the forks of a rollout that overlap, of whatever source and ε, in order of position."""
    rows = curves.of("forks", key).sort_values(["first", "last"])
    if rows.empty:
        return []
    reach = rows["last"].cummax().shift(fill_value=-1)
    groups = (rows["first"] >= reach).cumsum()
    grid = curves.of("grid", key).set_index("position")
    return [
        _joined(number, group, grid, decode)
        for number, (_, group) in enumerate(rows.groupby(groups), start=1)
    ]


def _joined(number: int, group: pd.DataFrame, grid: pd.DataFrame, decode: Decode) -> ShownFork:
    ordered = group.assign(width=group["last"] - group["first"], unlikely=-group["probability"])
    narrow = ordered.sort_values(["width", "unlikely"]).iloc[0]
    posterior = group[group["source"] == "posterior"]
    points = group.loc[group["source"] == "change_point", "distance"]
    first, last = int(narrow["first"]), int(narrow["last"])
    tokens = _branches(grid.loc[first : last - 1], decode)
    return ShownFork(
        number=number,
        first=first,
        last=last,
        probability={
            epsilon: float(posterior.loc[posterior["epsilon"] == epsilon, "probability"].max())
            for epsilon in sorted(posterior["epsilon"].unique().tolist())
        },
        distance=float(narrow["distance"]),
        change_point=float(points.max()) if len(points) else None,
        undecided=tuple(tokens[:_SHOWN_TOKENS]),
        hidden=len(tokens[_SHOWN_TOKENS:]),
    )


def _branches(grid: pd.DataFrame, decode: Decode) -> list[Branches]:
    found = []
    columns = (grid.index.tolist(), grid["tokens"], grid["probabilities"])
    for position, tokens, probabilities in zip(*columns, strict=True):
        texts = [token_label(text) for text in decode(tokens.tolist())]
        chances = probabilities.tolist()
        if len(texts) > 1:
            others = tuple(zip(texts[1:], chances[1:], strict=True))
            found.append(Branches(position, texts[0], chances[0], others))
    return sorted(found, key=lambda one: one.probability)


def fork_survival(curves: CurveData) -> dict[float, Survival]:
    """Pool the first forks of all rollouts by ε, token by token from the first generated one.

    A step over several tokens is spread evenly over them. Empty where the estimator in use gives no
    probabilities of forks.
    """
    pooled = {}
    for epsilon in curves.epsilons:
        firsts = [_first(curves, key, epsilon) for key in curves.keys]
        known = [first for first in firsts if first is not None]
        if known:
            pooled[epsilon] = survival(known)
    return pooled


def _first(curves: CurveData, key: RolloutKey, epsilon: float) -> NDArray[np.float64] | None:
    steps = curves.of("steps", key)
    steps = steps[np.isclose(steps["epsilon"], epsilon)]
    if steps.empty or steps["first"].isna().any():
        return None
    start = int(curves.of("grid", key)["position"].min())
    chance = np.zeros(int(steps["next_position"].max()) - start)
    columns = (steps[name] for name in ("position", "next_position", "first"))
    for position, following, first in zip(*columns, strict=True):
        chance[position - start : following - start] = first / (following - position)
    return chance

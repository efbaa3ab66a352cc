"""Draws of outcome curves by rollout, as the estimators take them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refork.data.schemas import ROLLOUT_KEY, RolloutKey
from refork.data.tuning_record import LeftOut
from refork.errors import ReforkError
from refork.stats.curves.sample import Collapsed, CurveSample

LAST = ("other", "truncated")
"""Outcomes that stand behind all labels."""


@dataclass(frozen=True)
class RolloutDraws:
    """The draws of one rollout.

    Attributes
    ----------
    key
        Question and rollout.
    outcomes
        Those that were drawn: labels in alphabetical order, then `LAST`; the sample's categories.
    first
        Absolute position of the first generated token, from which the sample counts.
    sample
        The draws at the positions of the grid.
    """

    key: RolloutKey
    outcomes: tuple[str, ...]
    first: int
    sample: CurveSample

    @property
    def positions(self) -> NDArray[np.int64]:
        """Absolute positions of the grid, shape (P,)."""
        return self.sample.positions + self.first

    def collapsed(self) -> Collapsed:
        """Merge outcomes that are rare everywhere, into `other` where it was drawn."""
        other = self.outcomes.index("other") if "other" in self.outcomes else None
        return self.sample.collapsed(other)


def rollout_draws(grid: pa.Table, draws: pa.Table) -> tuple[list[RolloutDraws], list[LeftOut]]:
    """Make a sample of every rollout that has a grid, in the order of the grid.

    Parameters
    ----------
    grid, draws
        Tables of `data.schemas`, GRID and DRAWS, of the same rollouts.

    Returns
    -------
    The samples, and the rollouts that have too few positions for a curve.

    Raises
    ------
    ReforkError
        Draws stand at a position that is not drawn, or what the tables hold is no sample.
    """
    own = dict(_by_rollout(draws))
    made, left_out = [], []
    for key, tokens in _by_rollout(grid):
        drawn = own.pop(key, draws.slice(0, 0))
        sampled = len(np.unique(drawn.column("position").to_numpy()))
        if sampled < 2:
            reason = f"positions of the grid with draws: {sampled}; a curve needs two at least"
            left_out.append(LeftOut(question_id=key[0], rollout=key[1], reason=reason))
        else:
            made.append(_rollout_draws(key, tokens, drawn))
    for question_id, rollout in own:
        raise ReforkError(f"question {question_id!r}, rollout {rollout}: draws without a grid")
    return made, left_out


def _by_rollout(table: pa.Table) -> Iterator[tuple[RolloutKey, pa.Table]]:
    """Cut a table into rollouts, in the order in which they first stand there."""
    if not table.num_rows:
        return
    number = np.zeros(table.num_rows, np.int64)
    for field in ROLLOUT_KEY:
        coded = table.column(field.name).combine_chunks().dictionary_encode()
        number = number * len(coded.dictionary) + coded.indices.to_numpy()
    _, code = np.unique(number, return_inverse=True)
    order = np.argsort(code, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(code))[:-1])
    for own in sorted(rows, key=lambda of_rollout: int(of_rollout[0])):
        part = table.take(pa.array(own))
        yield (part.column("question_id")[0].as_py(), part.column("rollout")[0].as_py()), part


def _rollout_draws(key: RolloutKey, tokens: pa.Table, draws: pa.Table) -> RolloutDraws:
    tokens = tokens.sort_by("position")
    draws = draws.sort_by([(name, "ascending") for name in ("position", "draw", "branch")])
    positions = tokens.column("position").to_numpy().astype(np.int64)
    grid = positions[tokens.column("on_grid").to_numpy()]
    drawn = draws.column("position").to_numpy().astype(np.int64)
    place = np.searchsorted(grid, drawn)
    stray = np.flatnonzero(grid[np.minimum(place, len(grid) - 1)] != drawn)
    where = f"question {key[0]!r}, rollout {key[1]}"
    if len(stray):
        raise ReforkError(f"{where}, position {drawn[stray[0]]}: draws off the grid")
    seen = set(draws.column("outcome").unique().to_pylist())
    outcomes = (*sorted(seen - set(LAST)), *(outcome for outcome in LAST if outcome in seen))
    first, length = int(positions[0]), int(grid[-1] - positions[0]) + 1
    try:
        sample = CurveSample(
            positions=grid - first,
            place=place,
            branch=draws.column("branch").to_numpy().astype(np.int64),
            outcome=_codes(draws.column("outcome"), outcomes),
            weight=draws.column("weight").to_numpy(),
            categories=len(outcomes),
            base_probability=_of_base(tokens)[:length],
            dropped=tokens.column("dropped").to_numpy()[:length],
        )
    except ReforkError as error:
        raise ReforkError(f"{where}: {error}") from error
    return RolloutDraws(key, outcomes, first, sample)


def _of_base(tokens: pa.Table) -> NDArray[np.float64]:
    """Probability of the rollout's own token, the first of each list; shape (tokens,)."""
    lists = tokens.column("probabilities").combine_chunks()
    starts = lists.offsets.to_numpy()[:-1]
    own: NDArray[np.float64] = lists.values.to_numpy()[starts]
    return own


def _codes(outcomes: pa.ChunkedArray, known: tuple[str, ...]) -> NDArray[np.int64]:
    coded = outcomes.combine_chunks().dictionary_encode()
    place = np.array([known.index(outcome) for outcome in coded.dictionary.to_pylist()])
    codes: NDArray[np.int64] = place[coded.indices.to_numpy()].astype(np.int64)
    return codes

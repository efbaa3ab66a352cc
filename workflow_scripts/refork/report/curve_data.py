"""The outcome curves of one variant as the report reads them: by rollout, forks as one list."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa

from refork.data.schemas import RolloutKey
from refork.data.tuning_record import TuningRecord

KEY = ["question_id", "rollout"]


@dataclass(frozen=True)
class CurveData:
    """Tables of `data.schemas` of all rollouts that get curves, and how they were made.

    `draws` are the graded continuations, `smoothing` the settings of the stage that smoothed them,
    `branches` how a draw comes to its branch (config `curves.branches`).
    """

    grid: pa.Table
    draws: pa.Table
    curves: pa.Table
    steps: pa.Table
    forks: pa.Table
    tuning: TuningRecord
    smoothing: Mapping[str, Any]
    branches: str

    @cached_property
    def keys(self) -> tuple[RolloutKey, ...]:
        """Rollouts that have a curve, in the order of the table."""
        columns = (self.curves[name].to_pylist() for name in KEY)
        return tuple(dict.fromkeys(zip(*columns, strict=True)))

    @cached_property
    def _frames(self) -> dict[str, dict[RolloutKey, pd.DataFrame]]:
        tables = {
            name: getattr(self, name) for name in ("grid", "draws", "curves", "steps", "forks")
        }
        return {
            name: {
                (str(question), int(rollout)): rows
                for (question, rollout), rows in table.to_pandas().groupby(KEY, sort=False)
            }
            for name, table in tables.items()
        }

    def of(self, table: str, key: RolloutKey) -> pd.DataFrame:
        """Return the rows of one rollout in a table, named as the attribute."""
        found = self._frames[table].get(key)
        if found is not None:
            return found
        whole: pa.Table = getattr(self, table)
        empty: pd.DataFrame = whole.schema.empty_table().to_pandas()
        return empty

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Total variations over which a step is a fork, the smallest first."""
        return tuple(sorted(self.smoothing["epsilon"]))

"""What is forced where a rollout is resumed: the arms of a pivot, or the branches of a grid."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from refork.data.schemas import ARMS, BRANCH, GRID, PIVOTS
from refork.data.tables import read_table


class Place(NamedTuple):
    """A position of a rollout and the token that each arm forces there, arms in order.

    `probabilities` are those of a grid's branches; None at a pivot.
    """

    question_id: str
    rollout: int
    position: int
    arms: dict[str, int]
    probabilities: list[float] | None


def read_forced(path: Path, stage: Mapping[str, Any]) -> pa.Table:
    """Read the pivots of a shard, or its grid where the stage reads one.

    Raises
    ------
    ReforkError
        The table is absent or damaged.
    """
    return read_table(path, GRID if "lay_grid" in stage["upstream"] else PIVOTS)


def places(table: pa.Table) -> Iterator[Place]:
    """Go through the pivots of a table, or through the drawn positions of a grid."""
    grid = "drawn" in table.column_names
    for row in table.to_pylist():
        if grid and not row["drawn"]:
            continue
        arms = (
            {f"{BRANCH}{number}": token for number, token in enumerate(row["tokens"])}
            if grid
            else {arm: row[f"{arm}_token"] for arm in ARMS}
        )
        yield Place(
            row["question_id"],
            row["rollout"],
            row["position"],
            arms,
            row["probabilities"] if grid else None,
        )

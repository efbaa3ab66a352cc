"""Program: from the tables of a shard to counts of every position, again and again."""

import sys
from pathlib import Path

from refork.data.schemas import CONTINUATIONS, GRID, OUTCOMES
from refork.data.tables import read_table
from refork.stages.curve_samples import rollout_draws
from refork.stages.estimate_curves import estimate_curves

STAGE = {"settings": {"curves": {"branches": "mixture"}}}


def main(folder: Path, times: int) -> int:
    """Count `times` over; print how many draws were counted."""
    counted = 0
    for _ in range(times):
        grid = read_table(folder / "grid.parquet", GRID)
        outcomes = read_table(folder / "outcomes.parquet", OUTCOMES)
        blocks = (read_table(path, CONTINUATIONS) for path in sorted(folder.glob("block-*")))
        rollouts, _ = rollout_draws(grid, estimate_curves(STAGE, grid, outcomes, blocks))
        counted += int(sum(one.sample.counts.sum() for one in rollouts))
    print(counted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2])))

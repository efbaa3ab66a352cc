"""The outcome curves of one variant, read along the stage records of a results folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from refork.data.schemas import CURVES, DRAWS, FORKS, GRID, STEPS
from refork.data.tables import read_shards, read_table
from refork.data.tuning_record import read_tuning
from refork.errors import ReforkError
from refork.report.curve_data import CurveData
from refork.report.stage_folders import StageFolders
from refork.study.graph import draw_blocks


def read_curves(smooth: StageFolders, branches: str) -> CurveData:
    """Read what a stage smooth_curves and those above it made.

    Raises
    ------
    ReforkError
        A table or a record is absent or damaged.
    """
    return CurveData(
        grid=read_shards([smooth.upstream("lay_grid").folder], GRID),
        draws=read_shards([smooth.upstream("estimate_curves").folder], DRAWS),
        curves=_read_part(smooth.folder, "", CURVES),
        steps=_read_part(smooth.folder, ".steps", STEPS),
        forks=_read_part(smooth.folder, ".forks", FORKS),
        tuning=read_tuning(smooth.upstream("tune_smoothing").folder / "tuning.json"),
        smoothing=smooth.record["settings"]["smoothing"],
        branches=branches,
    )


def curve_folders(smooth: StageFolders, settings: Mapping[str, Any]) -> list[Path]:
    """Return the folders of all stages of curves, in their order; `settings` are `curves`."""
    estimates = smooth.upstream("estimate_curves")
    draws = estimates.upstream("resample.curve").folder
    blocks = draw_blocks(settings["continuations"], settings["draw_block"])
    return [
        smooth.upstream("lay_grid").folder,
        *(draws / f"draws-{block}" for block in blocks),
        estimates.upstream("grade_outcomes").folder,
        estimates.folder,
        smooth.upstream("tune_smoothing").folder,
        smooth.folder,
    ]


def _read_part(folder: Path, part: str, schema: pa.Schema) -> pa.Table:
    """Read `shard-*{part}.parquet` of all shards; the parts of a shard stand side by side."""
    paths = [
        path
        for path in sorted(folder.glob(f"shard-*{part}.parquet"))
        if "." not in path.name.removesuffix(f"{part}.parquet")
    ]
    if not paths:
        raise ReforkError(f"{folder}: holds no shard-*{part}.parquet")
    return pa.concat_tables([schema.empty_table(), *(read_table(path, schema) for path in paths)])

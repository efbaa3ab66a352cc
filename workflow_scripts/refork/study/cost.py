"""What a study will cost before anything runs: jobs, requests, at most how many tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refork.data.schemas import ARMS
from refork.engines.describe import exact_state
from refork.study.config import Settings
from refork.study.graph import Graph, block_draws
from refork.study.probe_extent import ProbeExtent
from refork.study.stage import Stage


@dataclass(frozen=True)
class Cost:
    """Cost of a stage: jobs, requests, and generated tokens at most; in all and still to run."""

    jobs: int
    to_run: int
    requests: int
    tokens: int
    tokens_to_run: int


def stage_cost(graph: Graph, stage: Stage, lock: Mapping[str, Any]) -> Cost:
    """Bound the cost of a stage from the config and the number of questions in the lock.

    How many pivots a rollout will have is not known before it is sampled: the bound takes them all.
    """
    outputs = graph.outputs(stage)
    missing = sum(not path.exists() for path in outputs)
    if stage.name == "prepare_questions":
        outputs, missing = outputs[:1], min(missing, 1)
    blocks = graph.draw_blocks(stage) if stage.name == "resample" else []
    requests, tokens = _demand(graph, stage, lock, blocks)
    left = [block for block in blocks if not _is_done(graph, stage, block)]
    tokens_left = _demand(graph, stage, lock, left)[1] if missing else 0
    return Cost(len(outputs), missing, requests, tokens, tokens_left)


def _is_done(graph: Graph, stage: Stage, block: str) -> bool:
    folder = graph.folder(stage) / f"draws-{block}"
    return all((folder / f"{shard}.parquet").exists() for shard in graph.shards)


def _demand(
    graph: Graph, stage: Stage, lock: Mapping[str, Any], blocks: Sequence[str]
) -> tuple[int, int]:
    """Return requests and generated tokens at most; of a pass, in some of its draw blocks."""
    if stage.name not in ("probe_engine", "sample_rollouts", "resample"):
        return 0, 0
    settings = graph.settings_of(stage.name, stage.hash)
    variant = graph.variants_of(stage)[0]
    if stage.name == "probe_engine":
        locked, engine = lock["variants"][variant], settings.engine
        keeps = exact_state(locked["engine"]["kind"], engine.vllm.snapshots) == "snapshot"
        return ProbeExtent().demand(locked["questions"]["count"], engine.batch_rows, keeps)
    rollouts = lock["variants"][variant]["questions"]["count"] * settings.rollouts.count
    if stage.name == "sample_rollouts":
        return rollouts, rollouts * settings.rollouts.max_tokens
    drawn = [draw for block in blocks for draw in block_draws(block)]
    if "curves" in stage.settings:
        return _curve_demand(settings, lock["variants"][variant]["questions"]["count"], len(drawn))
    arms = rollouts * settings.pivots.max_per_rollout * len(ARMS)
    draws = arms * len(drawn)
    resample = settings.resample
    # The probe stands in the block of the first draw.
    probes = arms if resample.probe_tokens and 0 in drawn else 0
    return draws + probes, draws * resample.max_tokens + probes * resample.probe_tokens


def _curve_demand(settings: Settings, questions: int, draws: int) -> tuple[int, int]:
    """Bound the draws of curves: every generated token may be a position, with all its branches."""
    curves = settings.curves
    chosen = questions if curves.questions is None else min(curves.questions, questions)
    rollouts = chosen * min(curves.rollouts, settings.rollouts.count)
    positions = rollouts * -(-settings.rollouts.max_tokens // curves.stride)
    branches = 1 if curves.branches == "mixture" else curves.max_branches
    requests = positions * branches * draws
    return requests, requests * curves.max_tokens

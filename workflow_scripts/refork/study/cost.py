"""What a study will cost before anything runs: jobs, requests, at most how many tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refork.data.schemas import ARMS
from refork.study.graph import Graph, block_draws
from refork.study.stages import Stage


@dataclass(frozen=True)
class Cost:
    """Cost of a stage: jobs in all and still to run, requests and generated tokens at most."""

    jobs: int
    to_run: int
    requests: int
    tokens: int


def stage_cost(graph: Graph, stage: Stage, lock: Mapping[str, Any]) -> Cost:
    """Bound the cost of a stage from the config and the number of questions in the lock.

    How many pivots a rollout will have is not known before it is sampled: the bound takes them all.
    """
    outputs = graph.outputs(stage)
    missing = sum(not path.exists() for path in outputs)
    if stage.name == "prepare_questions":
        outputs, missing = outputs[:1], min(missing, 1)
    requests, tokens = _demand(graph, stage, lock)
    return Cost(len(outputs), missing, requests, tokens)


def _demand(graph: Graph, stage: Stage, lock: Mapping[str, Any]) -> tuple[int, int]:
    if stage.name not in ("sample_rollouts", "resample"):
        return 0, 0
    settings = graph.settings_of(stage.name, stage.hash)
    variant = graph.variants_of(stage)[0]
    rollouts = lock["variants"][variant]["questions"]["count"] * settings.rollouts.count
    if stage.name == "sample_rollouts":
        return rollouts, rollouts * settings.rollouts.max_tokens
    arms = rollouts * settings.pivots.max_per_rollout * len(ARMS)
    draws = arms * sum(len(block_draws(block)) for block in graph.draw_blocks(stage))
    resample = settings.resample
    probes = arms if resample.probe_tokens else 0
    return draws + probes, draws * resample.max_tokens + probes * resample.probe_tokens

"""Stage sample_rollouts: from questions to base rollouts, one shard."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from refork.data.schemas import ROLLOUTS
from refork.data.tables import Row, from_rows
from refork.engines.seeds import request_seed
from refork.engines.snapshot_files import merge_snapshots
from refork.stages.batch_groups import BatchGroup, batch_group, chunks
from refork.stages.engine_job import EngineJob, run_groups


def rollout_groups(questions: pa.Table, settings: Mapping[str, Any]) -> Iterator[BatchGroup]:
    """Yield the batch groups of a shard: whole questions, all their rollouts, in file order."""
    rows = questions.to_pylist()
    by_question = [list(group) for _, group in groupby(rows, key=lambda row: row["question_id"])]
    for chunk in chunks(by_question, settings["engine"]["group_questions"]):
        pairs = [_request(row, settings) for question in chunk for row in question]
        yield batch_group(len(chunk), pairs)


def _request(row: Row, settings: Mapping[str, Any]) -> tuple[Row, Row]:
    rollouts = settings["rollouts"]
    seed = request_seed(settings["seed"], row["question_id"], row["rollout"], position=0, draw=0)
    key = {
        "question_id": row["question_id"],
        "rollout": row["rollout"],
        "seed": seed,
        "prompt_token_ids": row["prompt_token_ids"],
    }
    request = {
        "question_id": row["question_id"],
        "rollout": row["rollout"],
        "state": "fresh",
        "prompt_length": len(row["prompt_token_ids"]),
        "token_ids": row["prompt_token_ids"],
        "logprobs": None,
        "forced_token": None,
        "seed": seed,
        "temperature": rollouts["temperature"],
        "top_p": rollouts["top_p"],
        "top_k": rollouts["top_k"],
        "max_tokens": rollouts["max_tokens"],
        "top_logprobs": rollouts["top_logprobs"],
        "keep_snapshot": rollouts["snapshots"],
    }
    return request, key


def sample_rollouts(
    job: EngineJob, questions: pa.Table, snapshots: Path
) -> tuple[pa.Table, dict[str, Any]]:
    """Sample the rollouts of a shard; return them and the facts for the manifest.

    The decode-time states go to `snapshots` (safetensors; empty where none are kept).
    """
    groups = list(rollout_groups(questions, job.stage["settings"]))
    outputs, facts = run_groups(job, groups)
    merge_snapshots([job.journal.snapshots(group.requests) for group in groups], snapshots)
    rows = [
        {**key, **{name: result[name] for name in _FROM_RESULT}}
        for output in outputs
        for key, result in zip(output.keys, output.results, strict=True)
    ]
    return from_rows(rows, ROLLOUTS), facts


_FROM_RESULT: Sequence[str] = (
    "token_ids",
    "logprobs",
    "top_token_ids",
    "top_logprobs",
    "finish_reason",
)

"""Stage resample: from pivots to continuations of both arms, one pass and draw block of a shard."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from refork.data.schemas import ARMS, CONTINUATIONS
from refork.data.tables import Row, from_rows
from refork.engines.seeds import request_seed
from refork.stages.batch_groups import BatchGroup, batch_group, chunks, shuffle_key
from refork.stages.engine_job import EngineJob, run_groups


def resample_groups(
    rollouts: pa.Table, pivots: pa.Table, settings: Mapping[str, Any], draws: range
) -> Iterator[BatchGroup]:
    """Yield the batch groups of one pass and draw block.

    The common order is question, rollout, position, arm, draw; in the first block an arm's greedy
    probe stands behind its draws. An `order_seed` shuffles inside each group: the same requests in
    other batches.
    """
    recorded = {(row["question_id"], row["rollout"]): row for row in rollouts.to_pylist()}
    by_question = [
        list(group) for _, group in groupby(pivots.to_pylist(), key=lambda row: row["question_id"])
    ]
    order_seed = settings["pass"]["order_seed"]
    for chunk in chunks(by_question, settings["engine"]["group_questions"]):
        pairs = [
            _request(pivot, recorded[pivot["question_id"], pivot["rollout"]], arm, draw, settings)
            for pivot in (pivot for question in chunk for pivot in question)
            for arm in ARMS
            for draw in _draws(draws, settings)
        ]
        if order_seed is not None:
            pairs.sort(key=lambda pair: shuffle_key(order_seed, *_identity(pair[1])))
        yield batch_group(len(chunk), pairs)


def _draws(draws: range, settings: Mapping[str, Any]) -> list[int | None]:
    """Return the draws of a block; None is the greedy probe."""
    probed = draws.start == 0 and settings["resample"]["probe_tokens"] > 0
    return [*draws, None] if probed else [*draws]


def _identity(key: Row) -> tuple[Any, ...]:
    return key["question_id"], key["rollout"], key["position"], key["arm"], key["draw"]


def _request(
    pivot: Row, rollout: Row, arm: str, draw: int | None, settings: Mapping[str, Any]
) -> tuple[Row, Row]:
    resample, item = settings["resample"], settings["pass"]
    prompt = rollout["prompt_token_ids"]
    generated = pivot["position"] - len(prompt)
    seed = request_seed(
        settings["seed"],
        pivot["question_id"],
        pivot["rollout"],
        position=pivot["position"],
        draw=-1 if draw is None else draw,
        arm=arm if resample["seeds"] == "independent" else None,
        pass_seed=item["seed"],
    )
    key = {
        "question_id": pivot["question_id"],
        "rollout": pivot["rollout"],
        "position": pivot["position"],
        "pass": item["name"],
        "arm": arm,
        "draw": draw,
        "seed": seed,
        "state": item["state"],
    }
    request = {
        "question_id": pivot["question_id"],
        "rollout": pivot["rollout"],
        "state": item["state"],
        "prompt_length": len(prompt),
        "token_ids": prompt + rollout["token_ids"][:generated],
        "logprobs": rollout["logprobs"][:generated],
        "forced_token": pivot[f"{arm}_token"],
        "seed": seed,
        "temperature": 0.0 if draw is None else resample["temperature"],
        "top_p": 1.0 if draw is None else resample["top_p"],
        "top_k": 0 if draw is None else resample["top_k"],
        "max_tokens": resample["probe_tokens"] if draw is None else resample["max_tokens"],
        "top_logprobs": 0,
        "keep_snapshot": False,
    }
    return request, key


def resample(
    job: EngineJob, rollouts: pa.Table, snapshots: Path, pivots: pa.Table, draws: range
) -> tuple[pa.Table, dict[str, Any]]:
    """Sample a draw block of one pass; return the continuations and the facts for the manifest."""
    settings = job.stage["settings"]
    groups = list(resample_groups(rollouts, pivots, settings, draws))
    shuffled = settings["pass"]["order_seed"] is not None
    outputs, facts = run_groups(job, groups, snapshots_in=snapshots, shuffled=shuffled)
    rows = [
        _continuation(key, result)
        for output in outputs
        for key, result in zip(output.keys, output.results, strict=True)
    ]
    rows.sort(key=lambda row: (*_identity(row)[:4], row["draw"] is None, row["draw"] or 0))
    return from_rows(rows, CONTINUATIONS), facts


def _continuation(key: Row, result: Row) -> Row:
    logprobs = result["logprobs"]
    return {
        **key,
        "token_ids": result["token_ids"],
        "finish_reason": result["finish_reason"],
        "first_logprob": logprobs[0] if logprobs else None,
        "cached_tokens": result["cached_tokens"],
        "recomputed_tokens": result["recomputed_tokens"],
        "fidelity": result["fidelity"],
    }

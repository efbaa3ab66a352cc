"""Stage resample: continuations of one pass and draw block of a shard.

They start from both arms of every pivot, or, for outcome curves, from the branches of every
position of a grid that has draws.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from refork.data.schemas import CONTINUATIONS
from refork.data.tables import Row, from_rows
from refork.engines.seeds import request_seed, uniform
from refork.stages.batch_groups import BatchGroup, batch_group, chunks, shuffle_key
from refork.stages.engine_job import EngineJob, run_groups
from refork.stages.forced import Place, places


def resample_groups(
    rollouts: pa.Table, forced: pa.Table, settings: Mapping[str, Any], draws: range
) -> Iterator[BatchGroup]:
    """Yield the batch groups of one pass and draw block; `forced` are pivots or a grid.

    The common order is question, rollout, position, arm, draw; in the first block an arm's greedy
    probe stands behind its draws. An `order_seed` shuffles inside each group: the same requests in
    other batches.
    """
    recorded = {(row["question_id"], row["rollout"]): row for row in rollouts.to_pylist()}
    by_question = [
        list(group) for _, group in groupby(places(forced), key=lambda place: place.question_id)
    ]
    order_seed = settings["pass"]["order_seed"]
    for chunk in chunks(by_question, settings["engine"]["group_questions"]):
        pairs = [
            _request(place, recorded[place.question_id, place.rollout], arm, draw, settings)
            for place in (place for question in chunk for place in question)
            for arm, draw in _arms(place, draws, settings)
        ]
        if order_seed is not None:
            pairs.sort(key=lambda pair: shuffle_key(order_seed, *_identity(pair[1])))
        yield batch_group(len(chunk), pairs)


def _arms(
    place: Place, draws: range, settings: Mapping[str, Any]
) -> Iterator[tuple[str, int | None]]:
    """Give the arms of a place with the draws of each, and None for its greedy probe."""
    if place.probabilities is None:
        yield from ((arm, draw) for arm in place.arms for draw in _draws(draws, settings))
    elif settings["curves"]["branches"] == "each":
        possible = [
            arm for arm, share in zip(place.arms, place.probabilities, strict=True) if share > 0
        ]
        yield from ((arm, draw) for arm in possible for draw in draws)
    else:
        yield from sorted(
            ((_drawn_branch(place, draw, settings), draw) for draw in draws),
            key=lambda pair: (list(place.arms).index(pair[0]), pair[1]),
        )


def _drawn_branch(place: Place, draw: int, settings: Mapping[str, Any]) -> str:
    """Draw the branch of a mixture draw, by the inverse of the cumulated probabilities."""
    assert place.probabilities is not None
    seed = request_seed(
        settings["seed"], place.question_id, place.rollout, place.position, draw, arm="branch"
    )
    number = float(uniform(seed, place.position, 0)) * sum(place.probabilities)
    last = max(at for at, share in enumerate(place.probabilities) if share > 0)
    chosen = int(np.searchsorted(np.cumsum(place.probabilities), number, side="right"))
    return list(place.arms)[min(chosen, last)]


def _draws(draws: range, settings: Mapping[str, Any]) -> list[int | None]:
    """Return the draws of a block; None is the greedy probe."""
    probed = draws.start == 0 and settings["resample"]["probe_tokens"] > 0
    return [*draws, None] if probed else [*draws]


def _identity(key: Row) -> tuple[Any, ...]:
    return key["question_id"], key["rollout"], key["position"], key["arm"], key["draw"]


def _request(
    place: Place, rollout: Row, arm: str, draw: int | None, settings: Mapping[str, Any]
) -> tuple[Row, Row]:
    resample, item = settings["resample"], settings["pass"]
    prompt = rollout["prompt_token_ids"]
    generated = place.position - len(prompt)
    # Draws of two branches are independent of each other; the two arms of a pivot share them.
    independent = place.probabilities is not None or resample["seeds"] == "independent"
    seed = request_seed(
        settings["seed"],
        place.question_id,
        place.rollout,
        position=place.position,
        draw=-1 if draw is None else draw,
        arm=arm if independent else None,
        pass_seed=item["seed"],
    )
    key = {
        "question_id": place.question_id,
        "rollout": place.rollout,
        "position": place.position,
        "pass": item["name"],
        "arm": arm,
        "draw": draw,
        "seed": seed,
        "state": item["state"],
    }
    request = {
        "question_id": place.question_id,
        "rollout": place.rollout,
        "state": item["state"],
        "prompt_length": len(prompt),
        "token_ids": prompt + rollout["token_ids"][:generated],
        "logprobs": rollout["logprobs"][:generated],
        "forced_token": place.arms[arm],
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
    job: EngineJob, rollouts: pa.Table, snapshots: Path, forced: pa.Table, draws: range
) -> tuple[pa.Table, dict[str, Any]]:
    """Sample a draw block of one pass; return the continuations and the facts for the manifest."""
    settings = job.stage["settings"]
    groups = list(resample_groups(rollouts, forced, settings, draws))
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

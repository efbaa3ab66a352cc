"""The batch groups of a probe: a study's first rollouts, short, and the same in other ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import pyarrow as pa

from refork.data.schemas import QUESTIONS, REQUESTS, RolloutKey
from refork.data.tables import Row, from_rows
from refork.stages.batch_groups import shuffle_key
from refork.stages.sample_rollouts import rollout_groups
from refork.study.probe_extent import ProbeExtent

SHORTEST = 3  # generated tokens of a rollout that has a middle: one before, one forced, one behind
_ORDER_SEED = 1


@dataclass(frozen=True)
class Reference:
    """The requests that all else is held against, as rows of `data.schemas.REQUESTS`.

    `compared` are rollouts of the first questions; `beside` them others fill the batch, as the
    study's own do.
    """

    questions: int
    compared: Sequence[Row]
    beside: Sequence[Row]

    @property
    def group(self) -> list[Row]:
        """All requests in their common order: question, rollout."""
        rows = [*self.compared, *self.beside]
        order = {name: i for i, name in enumerate(dict.fromkeys(r["question_id"] for r in rows))}
        return sorted(rows, key=lambda row: (order[row["question_id"]], row["rollout"]))

    @property
    def half(self) -> Sequence[Row]:
        """Every second of the compared rollouts, for what takes longer."""
        return self.compared[::2]

    @property
    def quarter(self) -> Sequence[Row]:
        """Every fourth of them, for what takes longest."""
        return self.compared[::4]


def reference_requests(
    questions: pa.Table,
    settings: Mapping[str, Any],
    extent: ProbeExtent,
    context_length: int,
    keeps_states: bool = True,
) -> Reference:
    """Make the base rollouts of the first questions, with the seeds that they have in the study.

    The batch is filled up to `engine.batch_rows`; a question with fewer rollouts is asked again.
    Their states are kept where the engine can, whatever the study keeps: they are compared.
    """
    by_question = groupby(questions.to_pylist(), key=lambda row: row["question_id"])
    first = [list(rows) for _, rows in islice(by_question, extent.questions)]
    each = extent.each(len(first))
    filled = extent.filled(len(first), settings["engine"]["batch_rows"])
    asked = [
        {**rows[rollout % len(rows)], "rollout": rollout}
        for rows in first
        for rollout in range(filled)
    ]
    longest = max(len(row["prompt_token_ids"]) for row in asked)
    kept = {
        "max_tokens": min(extent.max_tokens, context_length - longest),
        "top_logprobs": 0,
        "snapshots": keeps_states,
    }
    changed = {
        **settings,
        "engine": {**settings["engine"], "group_questions": len(first)},
        "rollouts": {**settings["rollouts"], **kept},
    }
    [group] = rollout_groups(from_rows(asked, QUESTIONS), changed)
    rows = group.requests.to_pylist()
    compared = [row for row in rows if row["rollout"] < each]
    beside = [{**row, "keep_snapshot": False} for row in rows if row["rollout"] >= each]
    return Reference(len(first), compared, beside)


def resumed_requests(
    requests: Sequence[Row], results: Mapping[RolloutKey, Row], state: str
) -> list[Row]:
    """Make requests that go on from the middle of each rollout, its own token forced.

    They draw with the rollout's seed as far as it went, so they can draw what it drew. Rollouts
    that are too short have no middle.
    """
    rows = []
    for request in requests:
        result = results[request["question_id"], request["rollout"]]
        drawn = len(result["token_ids"])
        if drawn < SHORTEST:
            continue
        cut = drawn // 2
        changed = {
            "state": state,
            "token_ids": request["token_ids"] + result["token_ids"][:cut],
            "logprobs": result["logprobs"][:cut],
            "forced_token": result["token_ids"][cut],
            "max_tokens": drawn - cut - 1,
        }
        rows.append({**request, **changed})
    return rows


def shuffled(requests: Sequence[Row]) -> list[Row]:
    """Put requests into another order, the same each time."""
    return sorted(
        requests, key=lambda row: shuffle_key(_ORDER_SEED, row["question_id"], row["rollout"])
    )


def table(requests: Sequence[Row]) -> pa.Table:
    """Make the table of requests, numbered as they come (`data.schemas.REQUESTS`)."""
    numbered = [{**row, "request": number} for number, row in enumerate(requests)]
    return from_rows(numbered, REQUESTS)

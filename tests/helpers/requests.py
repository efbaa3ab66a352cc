"""Batch groups to try an engine with: base rollouts, and what goes on from them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from refork.data.schemas import REQUESTS
from refork.engines.seeds import request_seed

SAMPLED = {"temperature": 0.8, "top_p": 0.95, "top_k": 0}
DRAWN = ("token_ids", "logprobs", "top_token_ids", "top_logprobs")
"""Columns of a result with an element a token."""
GREEDY = {"temperature": 0.0, "top_p": 1.0, "top_k": 0}


def fresh(prompts: Sequence[list[int]], rollouts: int, **given: Any) -> pa.Table:
    """Return requests for base rollouts of each prompt; prompt number n is question qn."""
    rows = [
        {
            "question_id": f"q{number}",
            "rollout": rollout,
            "state": "fresh",
            "prompt_length": len(prompt),
            "token_ids": prompt,
            "logprobs": None,
            "forced_token": None,
            "seed": request_seed(0, f"q{number}", rollout, 0, 0),
            **SAMPLED,
            "max_tokens": 24,
            "top_logprobs": 5,
            "keep_snapshot": False,
            **given,
        }
        for number, prompt in enumerate(prompts)
        for rollout in range(rollouts)
    ]
    return table(rows)


def resumed(
    requests: pa.Table, results: pa.Table, state: str, *, block: int = 0, **given: Any
) -> pa.Table:
    """Return requests that go on from the middle of each rollout, its own token forced.

    They draw with the rollout's seed up to its length, so they can draw what it drew. Where the
    tokens of a block are given, they go on from the end of a rollout's last full block, if it has
    one behind its prompt.
    """
    rows = []
    for request, result in zip(requests.to_pylist(), results.to_pylist(), strict=True):
        drawn, prompt = len(result["token_ids"]), request["prompt_length"]
        cut = drawn // 2
        if block:
            cut = (prompt + drawn - 2) // block * block - prompt
        if drawn < 4 or cut < 1:
            continue
        changed = {
            "state": state,
            "token_ids": request["token_ids"] + result["token_ids"][:cut],
            "logprobs": result["logprobs"][:cut],
            "forced_token": result["token_ids"][cut],
            "max_tokens": request["max_tokens"] - cut - 1,
            "keep_snapshot": False,
        }
        rows.append({**request, **changed, **given})
    return table(rows)


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Number the requests and make their table."""
    numbered = [{**row, "request": number} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=REQUESTS)


def drawn(results: pa.Table) -> list[dict[str, Any]]:
    """Return what each request drew, and how it ended."""
    rows: list[dict[str, Any]] = results.select([*DRAWN, "finish_reason"]).to_pylist()
    return rows


def remainders(requests: pa.Table, results: pa.Table, again: pa.Table) -> list[dict[str, Any]]:
    """Return what each rollout drew behind the tokens that are known in `again`."""
    keys = [(row["question_id"], row["rollout"]) for row in requests.to_pylist()]
    whole = dict(zip(keys, drawn(results), strict=True))
    cut = []
    for row in again.to_pylist():
        known = len(row["token_ids"]) + (row["forced_token"] is not None)
        behind = known - row["prompt_length"]
        rollout = whole[row["question_id"], row["rollout"]]
        cut.append({**rollout, **{name: rollout[name][behind:] for name in DRAWN}})
    return cut

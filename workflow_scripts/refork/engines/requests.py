"""Requests of a batch group as records, and the checks that come before anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from refork.data.schemas import REQUESTS
from refork.engines.interface import ROLLOUT_ID
from refork.errors import EngineError

STATES = ("fresh", "snapshot", "decode_replay", "prefill")


@dataclass(frozen=True)
class Request:
    """One row of `data.schemas.REQUESTS`."""

    request: int
    question_id: str
    rollout: int
    state: str
    prompt_length: int
    token_ids: list[int]
    logprobs: list[float] | None
    forced_token: int | None
    seed: int
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    top_logprobs: int
    keep_snapshot: bool

    @property
    def rollout_id(self) -> str:
        """Name of the base rollout, and of its snapshot."""
        return ROLLOUT_ID.format(question_id=self.question_id, rollout=self.rollout)

    @property
    def known(self) -> list[int]:
        """Prompt, generated prefix and forced token."""
        return self.token_ids if self.forced_token is None else [*self.token_ids, self.forced_token]


def read_requests(table: pa.Table) -> list[Request]:
    """Turn a table of requests into records, in its order.

    Raises
    ------
    EngineError
        The table has another schema.
    """
    if not table.schema.equals(REQUESTS):
        raise EngineError(f"requests: the columns are\n{table.schema}\nbut should be\n{REQUESTS}")
    return [Request(**row) for row in table.to_pylist()]


def check_requests(
    requests: Sequence[Request],
    context_length: int,
    snapshots_in: Path | None,
    snapshots_out: Path | None,
) -> None:
    """Refuse a group that cannot be run as it is asked for.

    Raises
    ------
    EngineError
        The first request that does not fit; the message names its question.
    """
    for request in requests:
        fault = _fault(request, context_length, snapshots_in, snapshots_out)
        if fault is not None:
            raise EngineError(f"question {request.question_id}, rollout {request.rollout}: {fault}")


def _fault(
    request: Request,
    context_length: int,
    snapshots_in: Path | None,
    snapshots_out: Path | None,
) -> str | None:
    """Say the first thing that is wrong with a request."""
    prefix, known = len(request.token_ids), len(request.known)
    generated = prefix - request.prompt_length
    recorded = generated if request.logprobs is None else len(request.logprobs)
    checks = (
        (request.state in STATES, f"state {request.state!r} is not one of {', '.join(STATES)}"),
        (
            1 <= request.prompt_length <= prefix,
            f"a prompt of {request.prompt_length} tokens in a prefix of {prefix}",
        ),
        (recorded == generated, f"{recorded} log-probabilities for {generated} generated tokens"),
        (request.max_tokens >= 1, f"max_tokens is {request.max_tokens}, must be at least 1"),
        (
            known + request.max_tokens <= context_length,
            f"{known} tokens and {request.max_tokens} more do not fit the context of "
            f"{context_length} tokens",
        ),
        (request.state != "snapshot" or snapshots_in, "state snapshot needs a snapshot file"),
        (not request.keep_snapshot or snapshots_out, "keep_snapshot needs a file to write to"),
    )
    return next((fault for passed, fault in checks if not passed), None)

"""Requests of a batch group as records, and the checks that come before anything runs."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from refork.data.schemas import REQUESTS
from refork.engines.interface import ROLLOUT_ID
from refork.errors import EngineError

STATES = ("fresh", "snapshot", "decode_replay", "prefill")
MOST_TOP_LOGPROBS = 20
"""Most probable tokens that an engine gives with each token."""
LEAST_TEMPERATURE = 1e-3
"""Below it, logit/T may leave float32; 0 is greedy."""


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
    vocabulary: int | None = None,
) -> None:
    """Refuse a group that cannot be run as it is asked for.

    Parameters
    ----------
    requests
        The group.
    context_length
        Tokens that the model can hold.
    snapshots_in, snapshots_out
        Files that snapshots are read from and written to.
    vocabulary
        Token ids that the model can be fed; None: any.

    Raises
    ------
    EngineError
        The first request that does not fit; the message names its question.
    """
    kept: set[str] = set()
    for request in requests:
        faults = chain(
            _state_faults(request, snapshots_in, snapshots_out, kept),
            _length_faults(request, context_length),
            _token_faults(request, vocabulary),
            _sampling_faults(request),
        )
        for fault in faults:
            raise EngineError(f"question {request.question_id}, rollout {request.rollout}: {fault}")
        if request.keep_snapshot:
            kept.add(request.rollout_id)


def _length_faults(request: Request, context_length: int) -> Iterator[str]:
    prefix, known = len(request.token_ids), len(request.known)
    generated = prefix - request.prompt_length
    recorded = generated if request.logprobs is None else len(request.logprobs)
    if not 1 <= request.prompt_length <= prefix:
        yield f"a prompt of {request.prompt_length} tokens in a prefix of {prefix}"
    if recorded != generated:
        yield f"{recorded} log-probabilities for {generated} generated tokens"
    if request.max_tokens < 1:
        yield f"max_tokens is {request.max_tokens}, must be at least 1"
    if prefix > context_length:
        yield f"a prefix of {prefix} tokens is longer than the context of {context_length} tokens"
    if known + request.max_tokens > context_length:
        yield (
            f"{known} tokens and {request.max_tokens} more do not fit the context of "
            f"{context_length} tokens"
        )


def _token_faults(request: Request, vocabulary: int | None) -> Iterator[str]:
    if min(request.known, default=0) < 0:
        yield f"token id {min(request.known)} is negative"
    if vocabulary is not None and max(request.known, default=0) >= vocabulary:
        yield (
            f"token id {max(request.known)} is not in the model's vocabulary of {vocabulary} tokens"
        )


def _sampling_faults(request: Request) -> Iterator[str]:
    temperature, top_p = request.temperature, request.top_p
    if temperature != 0 and not LEAST_TEMPERATURE <= temperature < math.inf:
        yield (
            f"temperature is {temperature:g}, must be 0 or a finite number from "
            f"{LEAST_TEMPERATURE:g} up"
        )
    if not 0 < top_p <= 1:
        yield f"top_p is {top_p:g}, must be above 0 and at most 1"
    if request.top_k < 0:
        yield f"top_k is {request.top_k}, must be 0 (all tokens) or more"
    if not 0 <= request.top_logprobs <= MOST_TOP_LOGPROBS:
        yield f"top_logprobs is {request.top_logprobs}, must be from 0 to {MOST_TOP_LOGPROBS}"


def _state_faults(
    request: Request,
    snapshots_in: Path | None,
    snapshots_out: Path | None,
    kept: Collection[str],
) -> Iterator[str]:
    if request.state not in STATES:
        yield f"state {request.state!r} is not one of {', '.join(STATES)}"
    if request.state == "snapshot" and not snapshots_in:
        yield "state snapshot needs a snapshot file"
    if request.keep_snapshot and not snapshots_out:
        yield "keep_snapshot needs a file to write to"
    if request.keep_snapshot and request.rollout_id in kept:
        yield "keep_snapshot stands at two requests; a rollout has one snapshot"

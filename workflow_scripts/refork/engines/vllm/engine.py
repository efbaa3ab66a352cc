"""The vLLM engine: whatever model vLLM runs, resumed from what its decode kernels wrote."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from refork.data.schemas import RESULTS
from refork.data.tables import from_rows
from refork.engines.interface import EngineSettings, with_replayed_tokens
from refork.engines.requests import Request, check_requests, read_requests
from refork.engines.vllm.cache import CacheSize, Room
from refork.engines.vllm.group_requests import GroupRequests, Layout
from refork.engines.vllm.instructions import Record
from refork.engines.vllm.loading import load
from refork.engines.vllm.loop import Done, Loop
from refork.engines.vllm.snapshots import check_states, state_kind, write_states
from refork.errors import EngineError

REFUSED = (
    "without engine.vllm.snapshots: true, vLLM keeps keys and values in this process only, and can "
    "neither write nor read snapshots"
)


class VllmEngine:
    """Runs batch groups by vLLM's continuous batching of at most `batch_rows` rows.

    `group_requests.GroupRequests` says which requests of vLLM answer a group, `cache.Room` that
    they fit, `loop.Loop` steps them, and `worker.DrawProcessor` draws.
    """

    def __init__(self, settings: EngineSettings, model_folder: Path) -> None:
        """Load a model; see `loading.load` for what is refused."""
        self._loaded = load(settings, model_folder)
        self._size = CacheSize(
            self._loaded.blocks,
            self._loaded.block_size,
            settings.batch_rows,
            settings.vllm.filler_rows,
        )
        self._tail = settings.vllm.tail
        self._groups = count()
        self.facts = self._loaded.facts
        self._keeps = settings.vllm.snapshots
        self._kind = state_kind(self.facts.fingerprint, settings.device)

    def run_group(
        self, requests: pa.Table, snapshots_in: Path | None, snapshots_out: Path | None
    ) -> pa.Table:
        """Run one batch group; see `interface.Engine`."""
        group = read_requests(requests)
        check_requests(
            group,
            self.facts.context_length,
            snapshots_in,
            snapshots_out,
            self._loaded.vocabulary,
        )
        self._check(group)
        layout = Layout(self._loaded.block_size, self._tail)
        resumed = [request for request in group if request.state == "snapshot"]
        if snapshots_in is not None and resumed:
            check_states(snapshots_in, resumed, self._kind, self._loaded.block_size)
        salt = f"group {next(self._groups)}"
        asked = GroupRequests(group, salt, layout, self._loaded.end_tokens, snapshots_in)
        records, cached, states = self._run(asked)
        if snapshots_out is not None and states:
            write_states(snapshots_out, states, self._kind)
        results = [
            _result(request, number, asked, records, cached[number])
            for number, request in enumerate(group)
        ]
        return with_replayed_tokens(from_rows(results, RESULTS), asked.replayed_tokens)

    def _check(self, group: Sequence[Request]) -> None:
        """Refuse what this engine cannot do."""
        for request in group:
            name = f"question {request.question_id}, rollout {request.rollout}"
            if request.state == "snapshot" and not self._keeps:
                raise EngineError(
                    f"{name}: state snapshot: {REFUSED}; its decode-time state is decode_replay"
                )
            if request.keep_snapshot and not self._keeps:
                raise EngineError(f"{name}: keep_snapshot: {REFUSED}")

    def _run(
        self, asked: GroupRequests
    ) -> tuple[dict[int, Record], dict[int, int], dict[str, torch.Tensor]]:
        """Run a group.

        Gives what came out of each request, the tokens it found cached, and the states to keep.
        """
        room = Room(self._size, asked)
        before = self._loaded.preemptions()
        loop = Loop(self._loaded.engine, self._size.rows, self._size.filler_rows, room.filler)
        self._loaded.begin()
        try:
            done = [*loop.run(iter(asked.replays))]
            done += loop.run(room.requests(lambda: loop.fillers_entered))
        finally:
            loop.stop()
            records, states = self._loaded.take_records(), self._loaded.end()
            self._loaded.forget()
        if self._loaded.preemptions() != before:
            raise EngineError(
                "vLLM preempted requests and so lost their decode-time states; lower "
                "engine.batch_rows or raise engine.vllm.cache_gib"
            )
        _check_done(done, records)
        cached = {one.request.key: one.cached_tokens for one in done if one.request.key is not None}
        return records, cached, states


def _check_done(done: Iterable[Done], records: Mapping[int, Record]) -> None:
    """Hold what vLLM did against what it was told."""
    for one in done:
        request = one.request
        if request.expected_cached is not None and one.cached_tokens != request.expected_cached:
            raise EngineError(
                f"{request.name}: {one.cached_tokens} tokens of its prefix were found in the "
                f"cache, but {request.expected_cached} should have been; raise "
                "engine.vllm.cache_gib, or make batch groups smaller"
            )
        if request.instructions is None:
            continue
        given, wanted = records[request.instructions.key].tokens, request.instructions.forced
        if one.tokens != given or one.tokens[: len(wanted)] != wanted:
            raise EngineError(f"{request.name}: vLLM gave other tokens than it was told to give")


def _result(
    request: Request, number: int, asked: GroupRequests, records: Mapping[int, Record], cached: int
) -> dict[str, Any]:
    """Make the result of a request out of what was drawn for it."""
    record, over = records[number], request.forced_token in asked.ends
    forced = len(request.known) - len(asked.requests[number].prompt)
    kept = slice(forced, forced if over else None)
    tokens = record.tokens[kept]
    taken = cached if request.state in ("decode_replay", "snapshot") else 0
    return {
        "request": request.request,
        "token_ids": tokens,
        "logprobs": record.logprobs[kept],
        "top_token_ids": record.top_tokens[kept],
        "top_logprobs": record.top_logprobs[kept],
        "finish_reason": "stop" if over or tokens[-1] in asked.ends else "length",
        "cached_tokens": taken,
        "recomputed_tokens": 0 if request.state == "fresh" else len(request.token_ids) - taken,
        "fidelity": _fidelity(request, number, asked, records, taken),
    }


def _fidelity(
    request: Request, number: int, asked: GroupRequests, records: Mapping[int, Record], taken: int
) -> float | None:
    """Largest |Δ log-probability| of prefix tokens that were forced against the recording.

    Those of the replay up to the prefix, and those that the request itself decoded; None where
    nothing was forced or recorded. A snapshot that was taken over whole is what it was.
    """
    if request.state == "snapshot" and taken == len(request.token_ids):
        return 0.0
    if request.state != "decode_replay" or request.logprobs is None:
        return None
    replayed = records[asked.replay_key(request)].logprobs[: len(request.logprobs)]
    decoded = request.logprobs[len(asked.requests[number].prompt) - request.prompt_length :]
    pairs = [
        *zip(replayed, request.logprobs, strict=True),
        *zip(records[number].logprobs, decoded, strict=False),
    ]
    return max((abs(again - once) for again, once in pairs), default=None)

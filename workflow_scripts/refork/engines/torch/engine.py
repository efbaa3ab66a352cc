"""The torch engine: any causal model of transformers whose state is keys and values."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
import transformers

from refork.data.schemas import RESULTS
from refork.data.tables import from_rows
from refork.engines.interface import EngineFacts, EngineSettings
from refork.engines.requests import Request, check_requests, read_requests
from refork.engines.torch.decode import Row, Start, decode
from refork.engines.torch.model import Prefill, TorchModel
from refork.engines.torch.snapshots import Snapshots, write_snapshots


class TorchEngine:
    """Runs batch groups in static batches of at most `batch_rows` requests, in their order.

    States a request starts from:

    - `fresh`: the prompt is prefilled, once for all requests of the group that share it.
    - `snapshot`: keys and values of the original decode, cut at the prefix; only the forced token
      is fed, by a decode step. Without a forced token the prefix's last token is fed again.
    - `decode_replay`: the prompt is prefilled and the recorded tokens are fed by decode steps.
    - `prefill`: the prefix and the forced token are fed at once, one sequence at a time, once for
      all requests of the group that share them; nothing comes from a snapshot.
    """

    def __init__(self, settings: EngineSettings, model_folder: Path) -> None:
        """Load a model; see `TorchModel` for what is refused."""
        torch.set_num_threads(settings.threads)
        self._rows = settings.batch_rows
        self._model = TorchModel(settings, model_folder)
        self.facts = EngineFacts(
            context_length=self._model.context_length,
            fingerprint=_fingerprint(settings, self._model),
        )

    def run_group(
        self, requests: pa.Table, snapshots_in: Path | None, snapshots_out: Path | None
    ) -> pa.Table:
        """Run one batch group; see `interface.Engine`."""
        group = read_requests(requests)
        check_requests(group, self.facts.context_length, snapshots_in, snapshots_out)
        rows: list[Row] = []
        with ExitStack() as stack:
            snapshots = None
            if snapshots_in and any(request.state == "snapshot" for request in group):
                snapshots = stack.enter_context(Snapshots(snapshots_in, self._model.kind))
            states = States(self._model, group, snapshots)
            for batch in _batches(group, self._rows):
                rows += decode(self._model, [states.start(request) for request in batch])
        kept = {row.request.rollout_id: row.snapshot for row in rows if row.snapshot is not None}
        if snapshots_out and kept:
            write_snapshots(snapshots_out, kept, self._model.kind)
        return from_rows([_result(row) for row in rows], RESULTS)


class States:
    """Makes the states that requests start from; equal prefills are shared until their last use."""

    def __init__(
        self, model: TorchModel, group: list[Request], snapshots: Snapshots | None
    ) -> None:
        """Count how often the group uses each prefill."""
        self._model, self._snapshots = model, snapshots
        self._uses = Counter(_prefilled(request) for request in group)
        self._prefills: dict[tuple[int, ...], Prefill] = {}

    def start(self, request: Request) -> Start:
        """Give a request its state."""
        length = len(request.token_ids)
        if request.state == "snapshot" and self._snapshots:
            cached = min(length, len(request.known) - 1)
            state = self._snapshots.load(request.rollout_id, cached).to(self._model.device)
            return Start(request, state, None, [], cached, length - cached)
        prefill = self._prefill(request)
        recomputed = 0 if request.state == "fresh" else length
        return Start(request, prefill.state, prefill.logits, prefill.logprobs, 0, recomputed)

    def _prefill(self, request: Request) -> Prefill:
        key = _prefilled(request)
        if key not in self._prefills:
            self._prefills[key] = self._model.prefill(list(key), request.prompt_length)
        self._uses[key] -= 1
        return self._prefills[key] if self._uses[key] else self._prefills.pop(key)


def _prefilled(request: Request) -> tuple[int, ...]:
    """Tokens that are fed at once."""
    if request.state == "decode_replay":
        return tuple(request.token_ids[: request.prompt_length])
    return tuple(request.known)


def _batches(group: list[Request], rows: int) -> Iterator[list[Request]]:
    """Cut the group, in its order, into static batches of one state each."""
    for _, alike in groupby(group, key=lambda request: request.state):
        run = list(alike)
        for first in range(0, len(run), rows):
            yield run[first : first + rows]


def _result(row: Row) -> dict[str, Any]:
    return {
        "request": row.request.request,
        "token_ids": row.drawn,
        "logprobs": row.logprobs,
        "top_token_ids": row.top_tokens,
        "top_logprobs": row.top_logprobs,
        "finish_reason": row.finish_reason,
        "cached_tokens": row.start.cached,
        "recomputed_tokens": row.start.recomputed,
        "fidelity": row.fidelity,
    }


def _fingerprint(settings: EngineSettings, model: TorchModel) -> dict[str, str]:
    device = torch.cuda.get_device_name() if settings.device == "cuda" else "cpu"
    return {
        "engine": "torch",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": device,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "dtype": settings.dtype,
        "threads": str(settings.threads),
        "attention": model.model.config._attn_implementation,
        "architecture": type(model.model).__name__,
        "weights": model.kind.model,
    }

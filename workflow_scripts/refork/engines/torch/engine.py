"""The torch engine: causal models of transformers whose state is keys and values."""

from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from refork.data.schemas import RESULTS
from refork.data.tables import from_rows
from refork.engines.interface import EngineFacts, EngineSettings, with_replayed_tokens
from refork.engines.requests import Request, check_requests, read_requests
from refork.engines.torch.decoder import Decoder
from refork.engines.torch.paths import open_decoder
from refork.engines.torch.schedule import Entry, Row, Schedule, naming
from refork.engines.torch.snapshots import Snapshots, write_snapshots
from refork.engines.torch.states import Resumption, States


class TorchEngine:
    """Runs batch groups by continuous batching of at most `batch_rows` rows.

    `states.States` says what requests start from, `schedule.Schedule` in which order they run.
    """

    def __init__(self, settings: EngineSettings, model_folder: Path) -> None:
        """Load a model; see `paths.open_decoder` for what is refused."""
        torch.set_num_threads(settings.threads)
        self._places = settings.batch_rows
        self._decoder = open_decoder(settings, model_folder)
        self.facts = EngineFacts(
            context_length=self._decoder.context_length,
            fingerprint=_fingerprint(settings, self._decoder),
        )

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
            self._decoder.vocabulary,
        )
        rows = [_row(request, self._decoder.end_tokens) for request in group]
        with ExitStack() as stack:
            snapshots = None
            if snapshots_in and any(request.state == "snapshot" for request in group):
                snapshots = stack.enter_context(Snapshots(snapshots_in, self._decoder.kind))
            resumptions, replayed = self._run(rows, snapshots)
        kept = {row.request.rollout_id: row.state for row in rows if row.state is not None}
        if snapshots_out and kept:
            write_snapshots(snapshots_out, kept, self._decoder.kind)
        results = [
            _result(row, resumption, self._decoder.end_tokens)
            for row, resumption in zip(rows, resumptions, strict=True)
        ]
        return with_replayed_tokens(from_rows(results, RESULTS), replayed)

    def _run(self, rows: list[Row], snapshots: Snapshots | None) -> tuple[list[Resumption], int]:
        """Run rows to their ends; gives what each went on from, and the tokens replayed for it."""
        places = min(self._places, max(1, len(rows)))
        states = States(self._decoder, [row.request for row in rows], snapshots, places)
        resumptions: list[Resumption] = []

        def enter(row: Row) -> tuple[Row, Entry]:
            with naming([row.request]):
                entry, resumption = states.start(row.request)
            resumptions.append(resumption)
            return row, entry

        # A generator would hold on to each state until the next one comes.
        Schedule(self._decoder, places).run(map(enter, rows))
        return resumptions, states.replayed_tokens


def _row(request: Request, ends: frozenset[int]) -> Row:
    """Make the row of a request; nothing is drawn behind a forced end token."""
    limit = 0 if request.forced_token in ends else request.max_tokens
    kept_on = torch.device("cpu") if request.keep_snapshot else None
    return Row(request, list(request.known), limit, kept_on)


def _result(row: Row, resumption: Resumption, ends: frozenset[int]) -> dict[str, Any]:
    stopped = row.limit == 0 or row.tokens[-1] in ends
    return {
        "request": row.request.request,
        "token_ids": row.drawn,
        "logprobs": row.logprobs,
        "top_token_ids": row.top_tokens,
        "top_logprobs": row.top_logprobs,
        "finish_reason": "stop" if stopped else "length",
        "cached_tokens": resumption.cached,
        "recomputed_tokens": resumption.recomputed,
        "fidelity": resumption.fidelity,
    }


def _fingerprint(settings: EngineSettings, decoder: Decoder) -> dict[str, str]:
    """Say what made the numbers; on the CPU, compiled kernels are among it."""
    on_cpu = settings.device == "cpu"
    return {
        "engine": "torch",
        "torch": torch.__version__,
        "transformers": version("transformers"),
        **({"numba": version("numba")} if on_cpu else {}),
        "device": "cpu" if on_cpu else torch.cuda.get_device_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "dtype": settings.dtype,
        "threads": str(settings.threads),
        **decoder.facts,
        "weights": decoder.kind.model,
    }

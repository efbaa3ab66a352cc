"""An engine job: the batch groups of one shard, run by the engine that the lock names."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from refork.data.files import canonical_json
from refork.data.journal import Journal
from refork.data.tables import Row
from refork.engines import open_engine
from refork.engines.describe import describe
from refork.engines.interface import (
    Engine,
    EngineSettings,
    SyntheticSettings,
    VllmSettings,
    replayed_tokens,
)
from refork.errors import EngineError
from refork.stages.batch_groups import BatchGroup
from refork.stages.gpus import lease_gpus
from refork.stages.processes import Tell, run_in_processes
from refork.stages.progress import Progress


@dataclass(frozen=True)
class EngineJob:
    """One job of a stage that runs an engine: its stage record, its model's folder, its journal.

    `label` is what its progress lines begin with, `processes` the number of those that share its
    batch groups, `gpus` the number of GPUs that it leases; no result depends on them.
    """

    stage: Mapping[str, Any]
    model_folder: Path
    journal: Journal
    label: str
    processes: int = 1
    gpus: int = 0


@dataclass(frozen=True)
class GroupOutput:
    """A finished batch group: its key columns and its results, request by request."""

    keys: tuple[Row, ...]
    results: list[Row]


def run_groups(
    job: EngineJob,
    groups: Sequence[BatchGroup],
    snapshots_in: Path | None = None,
    shuffled: bool = False,
) -> tuple[list[GroupOutput], dict[str, Any]]:
    """Run the groups that the journal lacks; return all of them and the facts for the manifest.

    GPUs are leased and an engine is loaded only if something is left to run; each process loads
    its own engine, and all of them share the GPUs.
    """
    progress = Progress(job.label, sum(group.questions for group in groups))
    tables = {place: job.journal.find(group.requests) for place, group in enumerate(groups)}
    missing = []
    for place, group in enumerate(groups):
        if tables[place] is None:
            missing.append(place)
        else:
            progress.advance(group.questions, 0, taken_over=True)

    def count(place: int, tokens: int) -> None:
        progress.advance(groups[place].questions, tokens, taken_over=False)

    if missing:
        lease_gpus(job.gpus, job.stage["lock"]["engine"]["hardware"])
    run = partial(_run, job, groups, snapshots_in, shuffled)
    processes = min(job.processes, len(missing))
    if processes > 1:
        shares = [partial(_tell, run, missing[first::processes]) for first in range(processes)]
        run_in_processes(shares, lambda line: count(*map(int, line.split())))
    else:
        for place, table in run(missing):
            tables[place] = table
            count(place, _tokens(table))
    return _gathered(job, groups, tables)


def _run(
    job: EngineJob,
    groups: Sequence[BatchGroup],
    snapshots_in: Path | None,
    shuffled: bool,
    places: Sequence[int],
) -> Iterator[tuple[int, pa.Table]]:
    """Run the groups at these places one after the other and keep each in the journal."""
    engine = start_engine(job.stage, job.model_folder, shuffled) if places else None
    for place in places:
        assert engine is not None
        requests = groups[place].requests
        results = engine.run_group(requests, snapshots_in, job.journal.snapshots(requests))
        fingerprint = canonical_json(dict(engine.facts.fingerprint))
        metadata = results.schema.metadata or {}
        results = results.replace_schema_metadata({**metadata, b"engine": fingerprint})
        job.journal.keep(requests, results)
        yield place, results


def _tell(
    run: Callable[[Sequence[int]], Iterator[tuple[int, pa.Table]]],
    places: Sequence[int],
    tell: Tell,
) -> None:
    """Run one process's share; the results stand in the journal, for which a line is enough."""
    for place, table in run(places):
        tell(f"{place} {_tokens(table)}")


def _tokens(results: pa.Table) -> int:
    return int(pc.sum(pc.list_value_length(results.column("token_ids"))).as_py() or 0)


def _gathered(
    job: EngineJob, groups: Sequence[BatchGroup], tables: Mapping[int, pa.Table | None]
) -> tuple[list[GroupOutput], dict[str, Any]]:
    outputs: list[GroupOutput] = []
    facts: dict[str, Any] = {"tokens": 0, "requests": 0, "replayed_tokens": 0}
    facts["batch_groups"] = len(groups)
    for place, group in enumerate(groups):
        results = tables[place]
        if results is None:
            results = job.journal.find(group.requests)
        if results is None:
            raise EngineError(f"{job.journal.folder}: a finished batch group is gone or damaged")
        facts["engine"] = json.loads(results.schema.metadata[b"engine"])
        facts["tokens"] += _tokens(results)
        facts["requests"] += results.num_rows
        facts["replayed_tokens"] += replayed_tokens(results)
        outputs.append(GroupOutput(group.keys, results.to_pylist()))
    return outputs, facts


def start_engine(stage: Mapping[str, Any], model_folder: Path, shuffled: bool = False) -> Engine:
    """Load the engine of a stage, once it is known to be the one that was locked.

    Raises
    ------
    EngineError
        The installed engine is not the locked one; the message says both.
    """
    locked, engine = stage["lock"]["engine"], stage["settings"]["engine"]
    settings = _engine_settings(engine, shuffled)
    vllm = settings.vllm
    here = describe(locked["kind"], locked["device"], vllm.block_size, vllm.snapshots)
    if here != {"exact": here["exact"], **locked}:  # which stands in the passes, settled
        raise EngineError(
            f"the engine is not the one that was locked:\n  locked: {locked}\n  here:   {here}\n"
            "  install the locked version, or run `refork lock CONFIG` to lock the study anew"
        )
    return open_engine(settings, model_folder)


def _engine_settings(engine: Mapping[str, Any], shuffled: bool) -> EngineSettings:
    """Return what the engine is started with, from the settings that are in its stage's hash."""
    return EngineSettings(
        kind=engine["kind"],
        device=engine["device"],
        dtype=engine["dtype"],
        threads=engine["threads"],
        batch_rows=engine["batch_rows"],
        kernels=engine["kernels"],
        trust_remote_code=engine["trust_remote_code"],
        shuffled=shuffled,
        synthetic=SyntheticSettings(**engine.get("synthetic", {})),
        vllm=VllmSettings(**engine.get("vllm", {})),
    )

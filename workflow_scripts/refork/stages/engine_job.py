"""An engine job: the batch groups of one shard, run by the engine that the lock names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refork.data.files import canonical_json
from refork.data.journal import Journal
from refork.data.tables import Row
from refork.engines import open_engine
from refork.engines.describe import describe
from refork.engines.interface import Engine, EngineSettings, SyntheticSettings
from refork.errors import EngineError
from refork.stages.batch_groups import BatchGroup
from refork.stages.progress import Progress


@dataclass(frozen=True)
class EngineJob:
    """One job of a stage that runs an engine: its stage record, its model's folder, its journal.

    `label` is what its progress lines begin with.
    """

    stage: Mapping[str, Any]
    model_folder: Path
    journal: Journal
    label: str


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

    The engine is loaded only if something is left to run.
    """
    progress = Progress(job.label, sum(group.questions for group in groups))
    engine: Engine | None = None
    outputs: list[GroupOutput] = []
    facts: dict[str, Any] = {"tokens": 0, "requests": 0, "batch_groups": len(groups)}
    for group in groups:
        results = job.journal.find(group.requests)
        taken_over = results is not None
        if results is None:
            engine = engine or _start_engine(job, shuffled)
            snapshots_out = job.journal.snapshots(group.requests)
            results = engine.run_group(group.requests, snapshots_in, snapshots_out)
            fingerprint = canonical_json(dict(engine.facts.fingerprint))
            results = results.replace_schema_metadata({"engine": fingerprint})
            job.journal.keep(group.requests, results)
        facts["engine"] = json.loads(results.schema.metadata[b"engine"])
        rows = results.to_pylist()
        tokens = sum(len(row["token_ids"]) for row in rows)
        facts["tokens"] += tokens
        facts["requests"] += len(rows)
        progress.advance(group.questions, tokens, taken_over)
        outputs.append(GroupOutput(group.keys, rows))
    return outputs, facts


def _start_engine(job: EngineJob, shuffled: bool) -> Engine:
    """Load the engine of a job, once it is known to be the one that was locked.

    Raises
    ------
    EngineError
        The installed engine is not the locked one; the message says both.
    """
    locked = job.stage["lock"]["engine"]
    here = describe(locked["kind"], locked["device"])
    if here != locked:
        raise EngineError(
            f"the engine is not the one that was locked:\n  locked: {locked}\n  here:   {here}\n"
            "  install the locked version, or run `refork lock CONFIG` to lock the study anew"
        )
    settings = _engine_settings(job.stage["settings"]["engine"], shuffled)
    return open_engine(settings, job.model_folder)


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
    )

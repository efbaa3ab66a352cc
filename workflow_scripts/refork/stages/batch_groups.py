"""Batch groups: the deterministic lists of requests that engine jobs are made of.

A batch changes results in bf16, so it is part of the treatment: nothing is batched across groups,
and a group is what is journalled and what is done again after a crash.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from refork.data.files import canonical_json
from refork.data.journal import Journal
from refork.data.schemas import REQUESTS
from refork.data.tables import from_rows
from refork.engines import open_engine
from refork.engines.describe import describe
from refork.engines.interface import Engine, EngineSettings, SyntheticSettings
from refork.errors import EngineError
from refork.stages.progress import Progress

Row = dict[str, Any]


@dataclass(frozen=True)
class BatchGroup:
    """The requests of one batch group, and for each the key columns that its result will carry."""

    questions: int
    requests: pa.Table
    keys: tuple[Row, ...]


def batch_group(questions: int, rows: Sequence[tuple[Row, Row]]) -> BatchGroup:
    """Make a batch group of (request, key) pairs; requests are numbered in the order given."""
    requests = [{"request": index, **request} for index, (request, _) in enumerate(rows)]
    return BatchGroup(questions, from_rows(requests, REQUESTS), tuple(key for _, key in rows))


def chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Cut a sequence into chunks of `size`, the last one shorter."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def shuffle_key(order_seed: int, *key: object) -> bytes:
    """Return a sort key that puts requests into another, reproducible order."""
    return hashlib.blake2b(repr((order_seed, *key)).encode(), digest_size=16).digest()


def engine_settings(record: Mapping[str, Any], shuffled: bool = False) -> EngineSettings:
    """Return what the engine is started with, from a stage's settings."""
    engine = record["engine"]
    return EngineSettings(
        kind=engine["kind"],
        device=engine["device"],
        dtype=engine["dtype"],
        threads=engine["threads"],
        batch_rows=engine["batch_rows"],
        trust_remote_code=engine["trust_remote_code"],
        shuffled=shuffled,
        synthetic=SyntheticSettings(**engine.get("synthetic", {})),
    )


def start_engine(stage: Mapping[str, Any], model: Path, shuffled: bool = False) -> Engine:
    """Load the engine of a stage, once it is known to be the one that was locked.

    Raises
    ------
    EngineError
        The installed engine is not the locked one; the message says both.
    """
    locked = stage["lock"]["engine"]
    here = describe(locked["kind"], locked["device"])
    if here != locked:
        raise EngineError(
            f"the engine is not the one that was locked:\n  locked: {locked}\n  here:   {here}\n"
            "  install the locked version, or run `refork lock CONFIG` to lock the study anew"
        )
    return open_engine(engine_settings(stage["settings"], shuffled), model)


@dataclass(frozen=True)
class GroupOutput:
    """A finished batch group: its key columns and its results, request by request."""

    keys: tuple[Row, ...]
    results: list[Row]


@dataclass(frozen=True)
class EngineJob:
    """One job of a stage that runs an engine: its stage record, its model's folder, its journal.

    `label` is what its progress lines begin with.
    """

    stage: Mapping[str, Any]
    model: Path
    journal: Journal
    label: str


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
            engine = engine or start_engine(job.stage, job.model, shuffled)
            snapshots_out = job.journal.snapshots(group.requests)
            results = engine.run_group(group.requests, snapshots_in, snapshots_out).results
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

"""Stage probe_engine: whether an engine's numbers depend on the batch and on a state's making.

A study's first rollouts are decoded in one batch group, then again alone, in another order, among
fewer, and resumed from their middle. What differs is counted token by token and, where the engine
keeps keys and values, found by layer. Everything goes through the interface of engines alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from refork.data.probe_record import ProbeRecord, Way, WayName, is_invariant
from refork.data.schemas import RolloutKey
from refork.data.tables import Row
from refork.engines.describe import exact_state
from refork.engines.interface import Engine, replayed_tokens
from refork.errors import EngineError
from refork.stages.engine_job import start_engine
from refork.stages.probe_requests import (
    SHORTEST,
    Reference,
    reference_requests,
    resumed_requests,
    shuffled,
    table,
)
from refork.stages.probe_states import StateFile
from refork.stages.probe_tally import Recorded, Tally, rollout_key
from refork.study.probe_extent import ProbeExtent

REMEDY = (
    "set `engine.kernels: stock`, which promises nothing of the kind; or probe another dtype, "
    "number of threads, device or version of the engine with `refork probe CONFIG`"
)
_STATES: Mapping[WayName, str] = {
    "resume": "snapshot",
    "replay": "decode_replay",
    "refeed": "prefill",
}
"""How the ways that go on from the middle reach their state."""


@dataclass(frozen=True)
class Engines:
    """An engine, loaded once, as it runs the common order and as it runs another."""

    common: Engine
    shuffled: Engine


def open_engines(stage: Mapping[str, Any], model_folder: Path) -> Engines:
    """Load the engine of a stage, once it is known to be the one that was locked."""
    common = start_engine(stage, model_folder)
    # The synthetic engine alone is told of an order; no model is loaded twice for it.
    told = stage["lock"]["engine"]["kind"] == "synthetic"
    return Engines(common, start_engine(stage, model_folder, shuffled=True) if told else common)


@dataclass(frozen=True)
class _Plan:
    """One way: the batch groups that are run, or why none is."""

    name: WayName
    engine: Engine
    groups: Sequence[Sequence[Row]]
    left_out: str = ""


def probe_engine(
    stage: Mapping[str, Any],
    engines: Engines,
    questions: pa.Table,
    folder: Path,
    extent: ProbeExtent | None = None,
) -> tuple[ProbeRecord, dict[str, Any]]:
    """Probe an engine; return the record and the facts for the manifest.

    Parameters
    ----------
    stage
        The record that was hashed.
    questions
        Prompts (`data.schemas.QUESTIONS`), all shards.
    folder
        Where snapshots lie while they are compared; they are deleted.
    extent
        How much is run.

    Raises
    ------
    EngineError
        There is no question, or the engine breaks a promise.
    """
    if not questions.num_rows:
        raise EngineError("there is no question to probe the engine with")
    probe = _Probe(stage["settings"], engines, folder)
    record = probe.run(questions, extent or ProbeExtent())
    fingerprint = dict(engines.common.facts.fingerprint)
    facts = {
        "tokens": probe.tokens,
        "requests": probe.requests,
        "replayed_tokens": probe.replayed_tokens,
        "engine": fingerprint,
    }
    return record, facts


def require_invariant(record: ProbeRecord) -> None:
    """Refuse an engine that promises to be batch-invariant and is not.

    Raises
    ------
    EngineError
        It is not; the message says which way differs, how far, from which layer on, and what to do.
    """
    if record.promised and not record.invariant:
        ways = "".join(f"\n  {way.in_words}" for way in record.differing)
        raise EngineError(
            f"engine.kernels: is {record.kernels!r}, but the probe finds otherwise. "
            f"{record.verdict}{ways}\n  {REMEDY}"
        )


class _Probe:
    """One probe under way: runs groups, and counts what they cost."""

    def __init__(self, settings: Mapping[str, Any], engines: Engines, folder: Path) -> None:
        self._settings, self._engines, self._folder = settings, engines, folder
        self.tokens = self.requests = self.replayed_tokens = 0

    def run(self, questions: pa.Table, extent: ProbeExtent) -> ProbeRecord:
        """Run the reference, then every way, and compare."""
        engine = self._settings["engine"]
        snapshots = engine.get("vllm", {}).get("snapshots", False)
        asked = reference_requests(
            questions,
            self._settings,
            extent,
            self._engines.common.facts.context_length,
            keeps_states=exact_state(engine["kind"], snapshots) == "snapshot",
        )
        kept = self._folder / "reference.safetensors"
        results = self._group(self._engines.common, asked.group, None, kept)
        compared = {key: results[key] for key in map(rollout_key, asked.compared)}
        recorded = Recorded(compared, StateFile(kept))
        ways = tuple(
            self._way(plan, recorded, kept) for plan in self._plans(asked, compared, kept.exists())
        )
        kept.unlink(missing_ok=True)
        return ProbeRecord(
            kernels=engine["kernels"],
            questions=asked.questions,
            rollouts=len(compared),
            tokens=sum(len(row["token_ids"]) for row in compared.values()),
            group=len(asked.group),
            batch_rows=engine["batch_rows"],
            ways=ways,
            invariant=is_invariant(ways),
        )

    def _plans(
        self, asked: Reference, results: Mapping[RolloutKey, Row], kept: bool
    ) -> list[_Plan]:
        """Lay out the groups of each way."""
        common, other = self._engines.common, self._engines.shuffled
        plans = [
            _Plan("alone", common, [[request] for request in asked.quarter]),
            _Plan("order", other, [shuffled(asked.group)]),
            _Plan("narrow", common, [asked.half]),
        ]
        for name, state in _STATES.items():
            resumed = asked.compared if state == "snapshot" else asked.half
            requests = shuffled(resumed_requests(resumed, results, state))
            if state == "snapshot" and not kept:
                plans.append(_Plan(name, other, [], "the engine keeps no states"))
            elif not requests:
                reason = f"no rollout has {SHORTEST} tokens or more"
                plans.append(_Plan(name, other, [], reason))
            else:
                plans.append(_Plan(name, other, [requests]))
        return plans

    def _way(self, plan: _Plan, recorded: Recorded, kept: Path) -> Way:
        tally = Tally(plan.name)
        again = self._folder / f"{plan.name}.safetensors"
        for requests in plan.groups:
            results = self._group(plan.engine, requests, kept, again)
            states = StateFile(again)
            for request in requests:
                if rollout_key(request) in recorded.results:
                    tally.add(recorded, request, results[rollout_key(request)], states)
            again.unlink(missing_ok=True)
        return tally.way(plan.left_out)

    def _group(
        self, engine: Engine, requests: Sequence[Row], kept: Path | None, snapshots: Path
    ) -> dict[RolloutKey, Row]:
        """Run one batch group; return its results by rollout."""
        table_of_results = engine.run_group(table(requests), kept, snapshots)
        results = table_of_results.to_pylist()
        self.replayed_tokens += replayed_tokens(table_of_results)
        self.requests += len(results)
        self.tokens += sum(len(row["token_ids"]) for row in results)
        return {rollout_key(row): result for row, result in zip(requests, results, strict=True)}

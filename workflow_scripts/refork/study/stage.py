"""One stage of a study and its hash.

The hash of a stage is the sha256 of canonical JSON: its name and version, the settings it reads,
the hashes of the stages it reads from, and from the lock what it depends on. What is not in there
cannot change its results.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from refork.data.files import canonical_json
from refork.engines.describe import BLOCK_SIZES
from refork.study.config import Settings

HASH_DIGITS = 16

# Raised by one when what a stage computes changes its meaning; then everything below it runs again.
VERSIONS = {
    "prepare_model": 1,
    "prepare_questions": 1,
    "probe_engine": 1,
    "sample_rollouts": 1,
    "extract_pivots": 1,
    "resample": 1,
    "grade_outcomes": 1,
    "measure_noise": 1,
    "lay_grid": 1,
    "estimate_curves": 1,
    "tune_smoothing": 1,
    "smooth_curves": 1,
    "report": 4,
}


# Keys of `engine` that change no result.
UNHASHED = ("python", "processes")


def record_hash(record: Mapping[str, Any]) -> str:
    """Return the first hexadecimal digits of the sha256 of a stage's record."""
    return hashlib.sha256(canonical_json(record).encode()).hexdigest()[:HASH_DIGITS]


def exact_state(engine: Mapping[str, Any]) -> str:
    """Return what the state `exact` is for the engine of a lock.

    A lock that was made before this was asked has an engine that keeps snapshots.
    """
    state: str = engine.get("exact", "snapshot")
    return state


@dataclass(frozen=True)
class Stage:
    """One stage with all that determines its output.

    `upstream` maps a label (a stage's name; `resample.<pass>` for passes) to the stage read from.
    """

    name: str
    settings: Mapping[str, Any]
    upstream: Mapping[str, "Stage"] = field(default_factory=dict)
    lock: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def record(self) -> dict[str, Any]:
        """Return what is hashed; it lies as stage.json in the stage's folder."""
        return {
            "stage": self.name,
            "version": VERSIONS[self.name],
            "settings": dict(self.settings),
            "upstream": {label: stage.hash for label, stage in self.upstream.items()},
            "lock": dict(self.lock),
        }

    @cached_property
    def hash(self) -> str:
        """Return the hash of the record; it names the stage's folder."""
        return record_hash(self.record)


def by_name(*stages: Stage) -> dict[str, Stage]:
    """Label stages by their names."""
    return {stage.name: stage for stage in stages}


def engine_settings(settings: Settings, lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's settings as the lock has settled them, without what changes no result."""
    locked = lock["engine"]
    engine = settings.engine.model_dump(exclude={*UNHASHED, "synthetic", "vllm"})
    engine |= {"kind": locked["kind"], "device": locked["device"]}
    engine["trust_remote_code"] = settings.model.trust_remote_code
    if engine["kind"] == "synthetic":
        engine["synthetic"] = settings.engine.synthetic.model_dump()
    if engine["kind"] == "vllm":
        vllm = engine["vllm"] = vllm_settings(settings)
        # Whoever keeps snapshots goes on from any token; its cache has blocks all the same.
        blocks = vllm["block_size"] or BLOCK_SIZES[locked["device"]]
        vllm["block_size"] = blocks if "snapshots" in vllm else locked["block_size"]
    return engine


def vllm_settings(settings: Settings) -> dict[str, Any]:
    """Return the section `vllm`; snapshots are named where they are kept alone."""
    vllm = settings.engine.vllm
    return vllm.model_dump(exclude=None if vllm.snapshots else {"snapshots"})


def locked_engine(lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine of the lock; its exact state stands where it is used."""
    return {key: value for key, value in lock["engine"].items() if key != "exact"}

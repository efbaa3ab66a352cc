"""The stages of a study and their hashes.

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
from refork.study.config import Pass, Settings

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
    "report": 3,
}


# Keys of `engine` that change no result.
_UNHASHED = ("python", "processes")


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


@dataclass(frozen=True)
class VariantStages:
    """The stages of one variant, by name; `resample` once a pass.

    `probe` is there where the variant relies on batch-invariant kernels.
    """

    settings: Settings
    model: Stage
    questions: Stage
    probe: Stage | None
    rollouts: Stage
    pivots: Stage
    passes: Mapping[str, Stage]
    outcomes: Stage
    noise: Stage

    def all(self) -> list[Stage]:
        """Return the stages in the order of the data."""
        probe = [] if self.probe is None else [self.probe]
        before = [self.model, self.questions, *probe, self.rollouts, self.pivots]
        return [*before, *self.passes.values(), self.outcomes, self.noise]


def variant_stages(settings: Settings, lock: Mapping[str, Any]) -> VariantStages:
    """Lay out the stages of a variant; `lock` is the variant's part of the lock file.

    What the config leaves open stands in the stages as the lock has settled it: the engine's kind
    and device, and the state `exact`.
    """
    model = Stage(
        "prepare_model",
        {"model": settings.model.model_dump()},
        lock={"model": lock["model"]},
    )
    questions = _questions_stage(settings, lock, model)
    probe = _probe_stage(settings, lock, model, questions)
    before = [model, questions] if probe is None else [model, questions, probe]
    rollouts = _rollouts_stage(settings, lock, before)
    pivots = _pivots_stage(settings, lock, model, rollouts)
    read_by_passes = _by_name(model, rollouts, pivots)
    passes = {
        item.name: _resample_stage(settings, item, lock, read_by_passes) for item in settings.passes
    }
    by_pass = {f"resample.{name}": stage for name, stage in passes.items()}
    outcomes = Stage(
        "grade_outcomes",
        {
            "grading": settings.grading.model_dump(),
            "continuations": settings.resample.continuations,
            "passes": list(passes),
        },
        _by_name(model, questions, rollouts, pivots) | by_pass,
    )
    noise = Stage(
        "measure_noise",
        {"noise": settings.noise.model_dump(), "passes": list(passes)},
        _by_name(outcomes, pivots) | by_pass,
        {"block_size": lock["engine"]["block_size"], **_exact_state(lock)},
    )
    return VariantStages(
        settings, model, questions, probe, rollouts, pivots, passes, outcomes, noise
    )


def report_stage(settings: Settings, variants: Mapping[str, VariantStages]) -> Stage:
    """Lay out the report of a study: the only stage that knows what the study is called."""
    return Stage(
        "report",
        {
            "base": _shown(settings),
            "variants": {name: _shown(item.settings) for name, item in variants.items()},
        },
        {f"measure_noise.{name}": item.noise for name, item in variants.items()},
    )


def _shown(settings: Settings) -> dict[str, Any]:
    """Return the settings that a report shows: all that may change a result, and its own look."""
    shown = settings.model_dump(exclude={"results", "resources", "variants"})
    for name in _UNHASHED:
        del shown["engine"][name]
    shown["engine"]["vllm"] = _vllm(settings)
    return shown


def _vllm(settings: Settings) -> dict[str, Any]:
    """Return the section `vllm`; snapshots are named where they are kept alone."""
    vllm = settings.engine.vllm
    return vllm.model_dump(exclude=None if vllm.snapshots else {"snapshots"})


def _questions_stage(settings: Settings, lock: Mapping[str, Any], model: Stage) -> Stage:
    record = {
        "questions": settings.questions.model_dump(),
        "prompt": settings.prompt.model_dump(),
        "rollouts": {"count": settings.rollouts.count},
        "trust_remote_code": settings.model.trust_remote_code,
        # The seed orders the choices, and does nothing else here.
        "seed": settings.seed if settings.questions.permute_choices else None,
    }
    frozen = {"questions": lock["questions"]["digest"], "examples": lock["examples"]}
    return Stage("prepare_questions", record, {"prepare_model": model}, frozen)


def _probe_stage(
    settings: Settings, lock: Mapping[str, Any], model: Stage, questions: Stage
) -> Stage | None:
    """Return the probe of a variant whose kernels are said to be batch-invariant, else None."""
    if settings.engine.kernels == "stock":
        return None
    return Stage(
        "probe_engine",
        {
            "seed": settings.seed,
            "engine": _engine(settings, lock),
            "rollouts": settings.rollouts.model_dump(include={"temperature", "top_p", "top_k"}),
        },
        _by_name(model, questions),
        {"engine": _locked_engine(lock)},
    )


def _rollouts_stage(settings: Settings, lock: Mapping[str, Any], before: list[Stage]) -> Stage:
    rollouts = settings.rollouts.model_dump(exclude={"count"})
    rollouts["snapshots"] &= exact_state(lock["engine"]) == "snapshot"
    return Stage(
        "sample_rollouts",
        {"seed": settings.seed, "engine": _engine(settings, lock), "rollouts": rollouts},
        _by_name(*before),
        {"engine": _locked_engine(lock)},
    )


def _pivots_stage(
    settings: Settings, lock: Mapping[str, Any], model: Stage, rollouts: Stage
) -> Stage:
    block_size = lock["engine"]["block_size"]
    # An engine that resumes at any position has no blocks to be slack about.
    unread = {"block_slack"} if block_size == 1 else set()
    return Stage(
        "extract_pivots",
        {"pivots": settings.pivots.model_dump(exclude=unread)},
        _by_name(model, rollouts),
        {"block_size": block_size},
    )


def _by_name(*stages: Stage) -> dict[str, Stage]:
    return {stage.name: stage for stage in stages}


def _engine(settings: Settings, lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's settings as the lock has settled them, without what changes no result."""
    locked = lock["engine"]
    engine = settings.engine.model_dump(exclude={*_UNHASHED, "synthetic", "vllm"})
    engine |= {"kind": locked["kind"], "device": locked["device"]}
    engine["trust_remote_code"] = settings.model.trust_remote_code
    if engine["kind"] == "synthetic":
        engine["synthetic"] = settings.engine.synthetic.model_dump()
    if engine["kind"] == "vllm":
        vllm = engine["vllm"] = _vllm(settings)
        # Whoever keeps snapshots goes on from any token; its cache has blocks all the same.
        blocks = vllm["block_size"] or BLOCK_SIZES[locked["device"]]
        vllm["block_size"] = blocks if "snapshots" in vllm else locked["block_size"]
    return engine


def _locked_engine(lock: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine of the lock; its exact state stands where it is used."""
    return {key: value for key, value in lock["engine"].items() if key != "exact"}


def _exact_state(lock: Mapping[str, Any]) -> dict[str, str]:
    """Return the exact state for a stage's record, where it is not a snapshot."""
    state = exact_state(lock["engine"])
    return {} if state == "snapshot" else {"exact": state}


def _resample_stage(
    settings: Settings,
    item: Pass,
    lock: Mapping[str, Any],
    upstream: Mapping[str, Stage],
) -> Stage:
    # The name of a pass is hashed too: a replica differs from its reference in nothing else.
    engine = _engine(settings, lock)
    if item.batch_rows is not None:
        engine["batch_rows"] = item.batch_rows
    state = exact_state(lock["engine"]) if item.state == "exact" else item.state
    return Stage(
        "resample",
        {
            "seed": settings.seed,
            "engine": engine,
            "resample": settings.resample.model_dump(exclude={"continuations"}),
            "pass": item.model_dump(exclude={"batch_rows"}) | {"state": state},
        },
        upstream,
        {"engine": _locked_engine(lock)},
    )

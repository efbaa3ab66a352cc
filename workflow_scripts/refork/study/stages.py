"""The stages of every variant of a study, and the report of them all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refork.study.config import Pass, Settings
from refork.study.curve_stages import CurveStages, curve_stages
from refork.study.stage import (
    UNHASHED,
    Stage,
    by_name,
    engine_settings,
    exact_state,
    locked_engine,
    vllm_settings,
)


@dataclass(frozen=True)
class VariantStages:
    """The stages of one variant, by name; `resample` once a pass.

    `probe` is there where the variant relies on batch-invariant kernels, `curves` where questions
    get outcome curves.
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
    curves: CurveStages | None

    def all(self) -> list[Stage]:
        """Return the stages in the order of the data."""
        probe = [] if self.probe is None else [self.probe]
        before = [self.model, self.questions, *probe, self.rollouts, self.pivots]
        curves = [] if self.curves is None else self.curves.all()
        return [*before, *self.passes.values(), self.outcomes, self.noise, *curves]


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
    read_by_passes = by_name(model, rollouts, pivots)
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
        by_name(model, questions, rollouts, pivots) | by_pass,
    )
    noise = Stage(
        "measure_noise",
        {"noise": settings.noise.model_dump(), "passes": list(passes)},
        by_name(outcomes, pivots) | by_pass,
        {"block_size": lock["engine"]["block_size"], **_exact_state(lock)},
    )
    curves = curve_stages(settings, lock, model, questions, rollouts)
    return VariantStages(
        settings, model, questions, probe, rollouts, pivots, passes, outcomes, noise, curves
    )


def report_stage(settings: Settings, variants: Mapping[str, VariantStages]) -> Stage:
    """Lay out the report of a study: the only stage that knows what the study is called."""
    return Stage(
        "report",
        {
            "base": _shown(settings),
            "variants": {name: _shown(item.settings) for name, item in variants.items()},
        },
        {
            **{f"measure_noise.{name}": item.noise for name, item in variants.items()},
            **{
                f"smooth_curves.{name}": item.curves.smooth
                for name, item in variants.items()
                if item.curves is not None
            },
        },
    )


def _shown(settings: Settings) -> dict[str, Any]:
    """Return the settings that a report shows: all that may change a result, and its own look."""
    shown = settings.model_dump(exclude={"results", "resources", "variants"})
    for name in UNHASHED:
        del shown["engine"][name]
    shown["engine"]["vllm"] = vllm_settings(settings)
    if settings.curves.questions == 0:
        del shown["curves"], shown["smoothing"]
    return shown


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
            "engine": engine_settings(settings, lock),
            "rollouts": settings.rollouts.model_dump(include={"temperature", "top_p", "top_k"}),
        },
        by_name(model, questions),
        {"engine": locked_engine(lock)},
    )


def _rollouts_stage(settings: Settings, lock: Mapping[str, Any], before: list[Stage]) -> Stage:
    rollouts = settings.rollouts.model_dump(exclude={"count"})
    rollouts["snapshots"] &= exact_state(lock["engine"]) == "snapshot"
    return Stage(
        "sample_rollouts",
        {"seed": settings.seed, "engine": engine_settings(settings, lock), "rollouts": rollouts},
        by_name(*before),
        {"engine": locked_engine(lock)},
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
        by_name(model, rollouts),
        {"block_size": block_size},
    )


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
    engine = engine_settings(settings, lock)
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
        {"engine": locked_engine(lock)},
    )

"""What a report is made of: the tables of every variant of one study, and how it shall look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from refork.data.probe_record import ProbeRecord
from refork.report.curve_data import CurveData
from refork.report.summary import Summary

Decode = Callable[[list[int]], list[str]]
"""Gives the piece of text that each token id stands for."""


@dataclass(frozen=True)
class Look:
    """How the report looks (config `report`); it changes no result.

    `title` null is the study's name, `rollout` (a question id) null the rollout with most flips.
    """

    title: str | None = None
    palette: str = "colorblind"
    rollout: str | None = None


@dataclass(frozen=True)
class VariantData:
    """One variant: its settings, its tables (`data.schemas`), its noise and its manifests.

    `noise["comparisons"]` lists the noise record of every comparison (`data.noise_record`); a
    manifest is that of one output (`data.manifest`). `probe` is there where the engine was probed
    before the study relied on it. `states` says how each pass reached its state, where the settings
    leave it to the engine; `resumes_by` says in words how an engine does that resumes by blocks.
    `curves` is there where the variant has outcome curves.
    """

    name: str
    settings: Mapping[str, Any]
    questions: pa.Table
    rollouts: pa.Table
    pivots: pa.Table
    continuations: pa.Table
    outcomes: pa.Table
    credits: pa.Table
    noise: Mapping[str, Any]
    manifests: tuple[Mapping[str, Any], ...] = ()
    probe: ProbeRecord | None = None
    states: Mapping[str, str] = field(default_factory=dict)
    resumes_by: str = ""
    curves: CurveData | None = None

    @property
    def reference(self) -> str:
        """Name of the pass that all others are compared with."""
        return str(self.settings["passes"][0]["name"])

    @property
    def invariant(self) -> bool:
        """Whether kernels are batch-invariant: promised by the settings and found by a probe."""
        return self.probe is not None and self.probe.promised and self.probe.invariant

    @property
    def passes(self) -> tuple[Mapping[str, Any], ...]:
        """Settings of every pass, the reference first, its state settled."""
        return tuple(
            {**item, "state": self.states.get(item["name"], item["state"])}
            for item in self.settings["passes"]
        )

    @property
    def comparisons(self) -> tuple[Summary, ...]:
        """The noise of every comparison."""
        return tuple(Summary.of(record) for record in self.noise["comparisons"])


@dataclass(frozen=True)
class StudyData:
    """One study: its settings, the defaults they are told apart from, its lock and its variants."""

    name: str
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    lock: Mapping[str, Any]
    variants: tuple[VariantData, ...]

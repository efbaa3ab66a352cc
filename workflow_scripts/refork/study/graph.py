"""The graph of a study: which file of which stage is made from which files.

The workflow's rules ask it for their inputs; `refork plan` asks it what is cached. The number of
jobs comes from the config alone: shards by question, draws in blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refork.errors import ReforkError
from refork.study.config import Demand, Settings
from refork.study.loading import Study
from refork.study.stage import Stage
from refork.study.stages import VariantStages, report_stage, variant_stages

_ONE_FILE = {
    "prepare_model": "model.manifest.json",
    "probe_engine": "probe.json",
    "measure_noise": "credits.parquet",
    "tune_smoothing": "tuning.json",
    "report": "report.html",
}
"""Output of the stages that are one job; the others have one a shard."""


def draw_blocks(continuations: int, block: int) -> list[str]:
    """Name the draw blocks of K continuations: K = 6 in blocks of 4 is 0000-0003 and 0004-0005."""
    firsts = range(0, continuations, block)
    return [f"{first:04d}-{min(first + block, continuations) - 1:04d}" for first in firsts]


def block_draws(block: str) -> range:
    """Return the draws of a block by its name."""
    first, last = block.split("-")
    return range(int(first), int(last) + 1)


def _blocks(settings: Settings, stage: Stage) -> list[str]:
    """Name the draw blocks of a pass, or of the draws of curves, in one variant."""
    asked = settings.curves if "curves" in stage.settings else settings.resample
    return draw_blocks(asked.continuations, asked.draw_block)


@dataclass(frozen=True)
class Graph:
    """All stages of a study and the paths of their files."""

    settings: Settings
    variants: Mapping[str, VariantStages]
    report: Stage
    _by_hash: Mapping[tuple[str, str], tuple[Stage, VariantStages]]

    @property
    def root(self) -> Path:
        """Return the folder of all results."""
        return Path(self.settings.results)

    @property
    def study_folder(self) -> Path:
        """Return the folder of this study's readable names."""
        return self.root / self.settings.study

    def stages(self) -> list[Stage]:
        """Return every stage once, however many variants share it."""
        every = [stage for variant in self.variants.values() for stage in variant.all()]
        return list({(stage.name, stage.hash): stage for stage in [*every, self.report]}.values())

    def folder(self, stage: Stage) -> Path:
        """Return the folder of a stage's files."""
        return self.root / stage.name / stage.hash

    def upstream(self, name: str, digest: str, *labels: str) -> Path:
        """Return the folder of the stage that `name`/`digest` reads from by one of the labels."""
        upstream = self._of(name, digest)[0].upstream
        [label] = [label for label in labels if label in upstream]
        return self.folder(upstream[label])

    def stage(self, name: str, digest: str) -> Stage:
        """Return the stage of a name and hash."""
        return self._of(name, digest)[0]

    def settings_of(self, name: str, digest: str) -> Settings:
        """Return the settings of a variant that has this stage."""
        return self._of(name, digest)[1].settings

    @property
    def shards(self) -> list[str]:
        """Name the shards, the same for all variants."""
        return [f"shard-{index:04d}" for index in range(self.settings.questions.shards)]

    def demand(self, name: str) -> Demand:
        """Return what the jobs of a rule ask of the machine."""
        resources = self.settings.resources
        by_rule = {
            "probe_engine": resources.sample_rollouts,
            "sample_rollouts": resources.sample_rollouts,
            "resample": resources.resample,
        }
        return by_rule.get(name, resources.other)

    def gpus(self, name: str, digest: str) -> int:
        """Return how many GPUs a job of an engine's rule asks for."""
        asked = self.demand(name).gpu
        engine = self.stage(name, digest).settings["engine"]
        if asked is not None:
            return asked
        if engine["device"] != "cuda":
            return 0
        gpus: int = engine["vllm"]["tensor_parallel"] if "vllm" in engine else 1
        return gpus

    def variants_of(self, stage: Stage) -> list[str]:
        """Return the names of the variants that share a stage."""
        return [name for name, variant in self.variants.items() if stage in variant.all()]

    def draw_blocks(self, stage: Stage) -> list[str]:
        """Name the draw blocks of a pass; variants that share it may differ in K."""
        sharing = [self.variants[name].settings for name in self.variants_of(stage)]
        return sorted({block for settings in sharing for block in _blocks(settings, stage)})

    def draw_folders(self, name: str, digest: str) -> list[str]:
        """Return the folders of all passes and draw blocks that a stage reads, passes in order."""
        stage, variant = self._of(name, digest)
        return [
            str(self.folder(upstream) / f"draws-{block}")
            for label, upstream in stage.upstream.items()
            if label.startswith("resample.")
            for block in _blocks(variant.settings, upstream)
        ]

    def outputs(self, stage: Stage) -> list[Path]:
        """Return the declared files of a stage, one a job."""
        folder = self.folder(stage)
        if stage.name in _ONE_FILE:
            return [folder / _ONE_FILE[stage.name]]
        shards = [f"{shard}.parquet" for shard in self.shards]
        if stage.name == "resample":
            blocks = self.draw_blocks(stage)
            return [folder / f"draws-{block}" / shard for block in blocks for shard in shards]
        return [folder / shard for shard in shards]

    def _of(self, name: str, digest: str) -> tuple[Stage, VariantStages]:
        try:
            return self._by_hash[name, digest]
        except KeyError:
            raise ReforkError(f"no stage {name}/{digest} in study {self.settings.study}") from None


def build_graph(study: Study, lock: Mapping[str, Any]) -> Graph:
    """Lay out all stages of a study by its lock."""
    variants = {
        name: variant_stages(settings, lock["variants"][name])
        for name, settings in study.variants.items()
    }
    report = report_stage(study.settings, variants)
    by_hash = {
        (stage.name, stage.hash): (stage, variant)
        for variant in reversed(variants.values())
        for stage in variant.all()
    }
    return Graph(study.settings, variants, report, by_hash)

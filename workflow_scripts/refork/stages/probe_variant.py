"""The probe of a variant outside the workflow, which makes what it reads where that is absent."""

import sys
import tempfile
import time
from pathlib import Path

from refork.data.manifest import manifest_path, write_manifest
from refork.data.probe_record import ProbeRecord
from refork.data.schemas import QUESTIONS
from refork.data.tables import read_shards, write_table
from refork.stages.gpus import lease_gpus
from refork.stages.prepare_model import prepare_model
from refork.stages.probe_engine import open_engines, probe_engine
from refork.study.folders import model_folder
from refork.study.graph import Graph
from refork.study.opening import begin_run
from refork.study.stages import VariantStages


def probe_variant(graph: Graph, variant: VariantStages) -> ProbeRecord:
    """Probe the engine of a variant in this process.

    Raises
    ------
    ReforkError
        Model or questions cannot be made, the engine is not the locked one, or it breaks a promise.
    """
    _prepare(graph, variant)
    # The rollouts' record holds all that a probe reads, and stands for every kind of kernels.
    stage = variant.rollouts.record
    model = model_folder(graph.folder(variant.rollouts) / "stage.json", stage)
    questions = read_shards([graph.folder(variant.questions)], QUESTIONS)
    gpus = graph.gpus("sample_rollouts", variant.rollouts.hash)
    lease_gpus(gpus, stage["lock"]["engine"]["hardware"])
    with tempfile.TemporaryDirectory(dir=graph.root) as folder:
        record, _ = probe_engine(stage, open_engines(stage, model), questions, Path(folder))
    return record


def _prepare(graph: Graph, variant: VariantStages) -> None:
    """Make the model and the questions of a variant where the results folder lacks them."""
    model = graph.folder(variant.model) / "model"
    shards = graph.outputs(variant.questions)
    if manifest_path(model).exists() and all(shard.exists() for shard in shards):
        return
    with begin_run(graph):
        if not manifest_path(model).exists():
            print("refork: preparing the model", file=sys.stderr)
            _prepare_model(variant, model)
        _prepare_questions(variant, model, shards)


def _prepare_model(variant: VariantStages, model: Path) -> None:
    started = time.time()
    facts = prepare_model(variant.model.record, model)
    write_manifest(model, variant.model.record, started, facts)


def _prepare_questions(variant: VariantStages, model: Path, shards: list[Path]) -> None:
    from refork.stages.prepare_questions import prepare_questions  # noqa: PLC0415 - slow to import

    started = time.time()
    stage = variant.questions.record
    tables = prepare_questions(stage, model, len(shards))
    for table, shard in zip(tables, shards, strict=True):
        write_table(table, shard, QUESTIONS)
        write_manifest(shard, stage, started, {"rows": table.num_rows})

"""`refork probe CONFIG`: whether an engine computes the same, however a token is reached.

It measures anew each time, with the study's lock, and takes model and questions from its results;
where they are not there yet, they are made as the workflow makes them. The exit status tells of
errors alone, unless `--require-invariant` is given.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from refork.cli.study_file import add_study_arguments, given_study
from refork.data.manifest import manifest_path, write_manifest
from refork.data.probe_record import ProbeRecord
from refork.data.schemas import QUESTIONS
from refork.data.tables import read_shards, write_table
from refork.errors import ReforkError, allowed_names
from refork.stages.prepare_model import prepare_model
from refork.stages.probe_engine import open_engines, probe_engine
from refork.study.folders import model_folder
from refork.study.graph import Graph, build_graph
from refork.study.loading import Study
from refork.study.lock import make_lock_if_absent, read_lock
from refork.study.opening import begin_run
from refork.study.stages import VariantStages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_study_arguments(parser)
    parser.add_argument("--variant", help="variant of the study; default: all of them")
    parser.add_argument("--json", action="store_true", help="print one JSON object, by variant")
    parser.add_argument(
        "--require-invariant",
        action="store_true",
        help="exit with status 1 where an engine is not batch-invariant, whatever its kernels",
    )
    # Set where this program has started itself in an engine's own environment.
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Probe the engine of every variant and say what was found."""
    study = given_study(arguments)
    names = _chosen(study, arguments.variant)
    make_lock_if_absent(study)
    graph = build_graph(study, read_lock(study))
    records: dict[str, ProbeRecord] = {}
    known: dict[str, ProbeRecord] = {}  # variants may share an engine and its rollouts
    for name in names:
        variant = graph.variants[name]
        if variant.rollouts.hash not in known:
            python = None if arguments.here else variant.settings.engine.python
            if not arguments.here:
                print(f"refork: probing {name}", file=sys.stderr)
            known[variant.rollouts.hash] = (
                probe_variant(graph, variant)
                if python is None
                else _probe_elsewhere(python, arguments, name)
            )
        records[name] = known[variant.rollouts.hash]
    _print(records, arguments.json)
    varies = any(not record.invariant for record in records.values())
    return 1 if arguments.require_invariant and varies else 0


def probe_variant(graph: Graph, variant: VariantStages) -> ProbeRecord:
    """Probe the engine of a variant in this process; model and questions are made if need be.

    Raises
    ------
    ReforkError
        They cannot be made, the engine is not the locked one, or it breaks a promise.
    """
    _prepare(graph, variant)
    # The rollouts' record holds all that a probe reads, and stands for every kind of kernels.
    stage = variant.rollouts.record
    model = model_folder(graph.folder(variant.rollouts) / "stage.json", stage)
    questions = read_shards([graph.folder(variant.questions)], QUESTIONS)
    with tempfile.TemporaryDirectory(dir=graph.root) as folder:
        record, _ = probe_engine(stage, open_engines(stage, model), questions, Path(folder))
    return record


def _prepare(graph: Graph, variant: VariantStages) -> None:
    """Make the model and the questions of a variant where the results folder lacks them."""
    model = graph.folder(variant.model) / "model"
    shards = graph.outputs(variant.questions)
    if manifest_path(model).exists() and all(shard.exists() for shard in shards):
        return
    from refork.stages.prepare_questions import prepare_questions  # noqa: PLC0415 - slow to import

    with begin_run(graph):
        if not manifest_path(model).exists():
            print("refork: preparing the model", file=sys.stderr)
            started = time.time()
            facts = prepare_model(variant.model.record, model)
            write_manifest(model, variant.model.record, started, facts)
        started = time.time()
        tables = prepare_questions(variant.questions.record, model, len(shards))
        for table, shard in zip(tables, shards, strict=True):
            write_table(table, shard, QUESTIONS)
            write_manifest(shard, variant.questions.record, started, {"rows": table.num_rows})


def _probe_elsewhere(python: str, arguments: argparse.Namespace, name: str) -> ProbeRecord:
    """Probe a variant with the interpreter of its engine's environment."""
    command = [python, "-m", "refork.cli.main", "probe", str(arguments.config)]
    command += ["--default", str(arguments.default), "--variant", name, "--json", "--here"]
    try:
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except OSError as error:
        raise ReforkError(f"engine.python: {python}: cannot be run ({error.strerror})") from error
    except subprocess.CalledProcessError as error:
        raise ReforkError(f"variant {name}: the probe failed in {python}, as said above") from error
    return ProbeRecord.model_validate_json(json.dumps(json.loads(told.stdout)[name]))


def _chosen(study: Study, variant: str | None) -> Sequence[str]:
    if variant is None:
        return list(study.variants)
    if variant not in study.variants:
        raise ReforkError(f"--variant {variant}: {allowed_names(variant, study.variants)}")
    return [variant]


def _print(records: dict[str, ProbeRecord], as_json: bool) -> None:
    if as_json:
        shown = {name: record.model_dump(mode="json") for name, record in records.items()}
        print(json.dumps(shown, indent=2, ensure_ascii=False, allow_nan=False))
        return
    from refork.cli.probe_table import print_probe  # noqa: PLC0415 - rich is for people alone

    for name, record in records.items():
        print_probe(name, record)

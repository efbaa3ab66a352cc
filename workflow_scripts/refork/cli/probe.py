"""`refork probe CONFIG`: whether an engine computes the same, however a token is reached.

It measures anew each time, with the study's lock, and takes model and questions from its results;
where they are not there yet, they are made as the workflow makes them. The exit status tells of
errors alone, unless `--require-invariant` is given.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence

from refork.cli.study_file import add_study_arguments, given_study
from refork.data.probe_record import ProbeRecord
from refork.errors import ReforkError, allowed_names
from refork.stages.probe_variant import probe_variant
from refork.study.graph import Graph, build_graph
from refork.study.loading import Study
from refork.study.lock import make_lock_if_absent, read_lock


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
        rollouts = graph.variants[name].rollouts.hash
        if rollouts not in known:
            known[rollouts] = _probe(graph, name, arguments)
        records[name] = known[rollouts]
    _print(records, arguments.json)
    varies = any(not record.invariant for record in records.values())
    return 1 if arguments.require_invariant and varies else 0


def _probe(graph: Graph, name: str, arguments: argparse.Namespace) -> ProbeRecord:
    """Probe a variant, here or in the environment that its engine names."""
    variant = graph.variants[name]
    if arguments.here:
        return probe_variant(graph, variant)
    print(f"refork: probing {name}", file=sys.stderr)
    python = variant.settings.engine.python
    if variant.rollouts.settings["engine"]["kind"] == "vllm":
        # vLLM gives its memory back only with its process.
        python = python or sys.executable
    if python is None:
        return probe_variant(graph, variant)
    return _probe_elsewhere(python, arguments, name)


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

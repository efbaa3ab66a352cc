"""The study's graph, and what every rule shares."""

import gc
import sys

from snakemake.settings.types import DeploymentMethod

from refork.errors import ReforkError
from refork.study.opening import begin_run, open_study

# The objects of a large job graph all stay: to look for garbage among them takes a fifth of the time.
gc.set_threshold(200_000, 20, 100)

try:
    GRAPH = open_study(config, str((workflow.overwrite_configfiles or ["config/demo.yaml"])[-1]))
    # `workflow.dryrun` is settled only after this file is read.
    if workflow.is_main_process and not workflow.output_settings.dryrun:
        HOLD = begin_run(GRAPH)
except ReforkError as error:
    sys.exit(f"refork: {error}")

# With `--sdm conda` a job runs in its rule's environment, else with the interpreter that runs this.
CONDA = DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method
PYTHON = "python" if CONDA else sys.executable


wildcard_constraints:
    hash="[0-9a-f]+",
    shard="shard-[0-9]+",
    block="[0-9]+-[0-9]+",


def results(path):
    """Return a path in the results folder."""
    return f"{GRAPH.root}/{path}"


def upstream(stage, label):
    """Return an input or params function: the folder of a stage that `stage` reads from."""
    return lambda wildcards: str(GRAPH.upstream(stage, wildcards.hash, label))


def reads(stage, **files):
    """Return an input function: files by name, each `STAGE/FILE` of a stage that `stage` reads.

    Of `STAGE|OTHER/FILE` it reads one.
    """

    def paths(wildcards):
        found = {}
        for name, file in files.items():
            labels, _, rest = file.partition("/")
            folder = GRAPH.upstream(stage, wildcards.hash, *labels.split("|"))
            found[name] = f"{folder}/{rest.format(**wildcards)}"
        return found

    # One call for all inputs of a job: Snakemake looks at each function anew for every job.
    return unpack(paths)


def draws(stage):
    """Return an input function: a shard of all passes and draw blocks; all shards without one."""

    def paths(wildcards):
        shards = [wildcards.shard] if "shard" in wildcards.keys() else GRAPH.shards
        folders = GRAPH.draw_folders(stage, wildcards.hash)
        return [f"{folder}/{shard}.parquet" for shard in shards for folder in folders]

    return paths


def all_shards(stage, label):
    """Return an input function: all shards of a stage that `stage` reads from."""
    folder = upstream(stage, label)
    return lambda wildcards: [f"{folder(wildcards)}/{shard}.parquet" for shard in GRAPH.shards]


def variants(stage):
    """Return a params function: the variants that share a stage, for people."""
    return lambda wildcards: ", ".join(GRAPH.variants_of(GRAPH.stage(stage, wildcards.hash)))


def probe_of(stage):
    """Return an input function: the probe of a stage's engine, where the stage waits for one."""

    def paths(wildcards):
        upstream = GRAPH.stage(stage, wildcards.hash).upstream
        return GRAPH.outputs(upstream["probe_engine"]) if "probe_engine" in upstream else []

    return paths


def engine_threads(stage):
    """Return a threads function: the cores of an engine's job, those of its processes together."""

    def threads(wildcards):
        engine = GRAPH.settings_of(stage, wildcards.hash).engine
        return engine.threads * engine.processes

    return threads


def engine_processes(stage):
    """Return a params function: as many processes as the cores that a job was given allow."""

    def processes(wildcards, threads):
        return max(1, threads // GRAPH.settings_of(stage, wildcards.hash).engine.threads)

    return processes


def engine_gpus(stage):
    """Return a resources or params function: the GPUs that a job of a stage's engine asks for."""
    return lambda wildcards: GRAPH.gpus(stage, wildcards.hash)


def engine_environment(stage):
    """Return a conda function: the environment of a stage's engine."""

    def environment(wildcards):
        engine = GRAPH.stage(stage, wildcards.hash).settings["engine"]
        vllm = {"cuda": "vllm", "cpu": "vllm-cpu"}[engine["device"]]
        return f"../envs/{vllm if engine['kind'] == 'vllm' else 'torch'}.yaml"

    return environment


def engine_python(stage):
    """Return a params function: the interpreter of a stage's engine."""
    return lambda wildcards: GRAPH.settings_of(stage, wildcards.hash).engine.python or PYTHON

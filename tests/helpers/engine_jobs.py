"""Engine jobs as Snakemake starts them: their files, and the scripts that run them."""

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.repository import ROOT
from helpers.studies import LOCKED
from refork.data.manifest import write_manifest
from refork.data.schemas import QUESTIONS
from refork.data.tables import write_table
from refork.engines.describe import describe
from refork.stages.prepare_questions import Plan, load_tokenizer, prompt_tables
from refork.study.folders import write_records
from refork.study.graph import Graph, build_graph
from refork.study.loading import load_study, merge
from refork.tasks.prompts import Prompter, PromptSettings
from refork.tasks.questions import Question

CONFIG: dict[str, Any] = {
    "questions": {"file": "questions.jsonl"},
    "engine": {"device": "cpu", "group_questions": 1, "batch_rows": 4},
    "rollouts": {"count": 2, "temperature": 1.0, "top_p": 0.9, "max_tokens": 24},
    "pivots": {"margin": 3.0, "max_per_rollout": 2},
    "resample": {"continuations": 2, "draw_block": 2, "max_tokens": 24, "probe_tokens": 4},
}


@dataclass(frozen=True)
class Jobs:
    """The jobs of one shard of a study that stands ready to be sampled."""

    graph: Graph

    def command(self, stage: str, out: Path, processes: int) -> list[str]:
        """Return the call of a script that writes its shard and journal into the folder `out`."""
        variant = self.graph.variants["base"]
        folder = {"sample_rollouts": variant.rollouts, "resample": variant.passes["exact"]}[stage]
        made = self.graph.folder(variant.rollouts)
        read: dict[str, dict[str, Path | str]] = {
            "sample_rollouts": {
                "--questions": self.graph.folder(variant.questions) / "shard-0000.parquet",
                "--snapshots": out / "shard-0000.safetensors",
            },
            "resample": {
                "--rollouts": made / "shard-0000.parquet",
                "--snapshots": made / "shard-0000.safetensors",
                "--forced": self.graph.folder(variant.pivots) / "shard-0000.parquet",
                "--draws": "0000-0001",
            },
        }
        files = read[stage] | {
            "--stage": self.graph.folder(folder) / "stage.json",
            "--journal": out / "journal",
            "--out": out / "shard-0000.parquet",
            "--processes": str(processes),
        }
        words = [str(word) for pair in files.items() for word in pair]
        return [sys.executable, str(ROOT / "workflow_scripts" / f"{stage}.py"), *words]

    def run(self, stage: str, out: Path, processes: int = 1) -> dict[str, bytes]:
        """Run a job to its end; return its files by name, the manifest left out."""
        done = subprocess.run(
            self.command(stage, out, processes), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert not (out / "journal").exists()
        return {p.name: p.read_bytes() for p in out.iterdir() if "manifest" not in p.name}

    def extract_pivots(self) -> None:
        """Make the pivots of the shard, which `resample` reads, from its rollouts."""
        variant = self.graph.variants["base"]
        folder, made = self.graph.folder(variant.pivots), self.graph.folder(variant.rollouts)
        command = [sys.executable, str(ROOT / "workflow_scripts" / "extract_pivots.py")]
        command += ["--stage", str(folder / "stage.json")]
        command += ["--rollouts", str(made / "shard-0000.parquet")]
        subprocess.run([*command, "--out", str(folder / "shard-0000.parquet")], check=True)


def lay_out(root: Path, kind: str, model: Path, **overrides: Any) -> Jobs:
    """Write what comes before the sampling of six questions on an engine."""
    asked = [
        Question(f"q{n}", "choice", f"Case {n}?", "ABCD"[n % 4], ("w", "x", "y", "z"))
        for n in range(6)
    ]
    config = merge(CONFIG, {"results": str(root / "results"), "engine": {"kind": kind}})
    if kind != "synthetic":
        config["model"] = {"folder": str(model)}
    study = load_study(merge(config, overrides))
    graph = build_graph(study, {"variants": {"base": {**LOCKED, "engine": describe(kind, "cpu")}}})
    write_records(graph)
    variant = graph.variants["base"]
    folder = graph.folder(variant.model) / "model"
    shutil.copytree(model, folder)
    write_manifest(folder, variant.model.record, time.time())
    prompter = Prompter(PromptSettings(), load_tokenizer(model, False))
    plan = Plan(rollouts=study.settings.rollouts.count, seed=0, context_length=16384)
    [table] = prompt_tables(asked, prompter, plan)
    write_table(table, graph.folder(variant.questions) / "shard-0000.parquet", QUESTIONS)
    return Jobs(graph)

"""The vLLM engine beside bare vLLM and transformers, on the same requests in one run.

`python -m helpers.vllm_speed --model FOLDER` (with `workflow_scripts` and `tests` on PYTHONPATH, in
the environment of vLLM) prints a table; without `--model`, a model of Llama-3-8B's shape with dummy
weights is run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from helpers.repository import ROOT
from helpers.speed_models import LLAMA_3_8B, drawn_lengths, recorded_lengths, write_dummy_model

QUESTIONS = ROOT / "config" / "questions" / "arithmetic.jsonl"
HEAD = f"{'way':34}{'rows':>6}{'tokens':>9}{'seconds':>9}{'tokens/s':>10}{'of bare':>9}{'GiB':>7}"


@dataclass(frozen=True)
class Extent:
    """How much is run: rollouts, pivots of each, continuations of either arm, rows at once."""

    device: str
    rollouts: int = 20
    pivots: int = 5
    continuations: int = 16
    rollout_tokens: int = 400
    context: int = 1536
    rows: int = 256
    generate_rows: int = 256
    generate_batches: int = 3
    threads: int = 1
    cache_gib: float | None = None

    @property
    def requests(self) -> int:
        """Continuations in all."""
        return self.rollouts * self.pivots * 2 * self.continuations


def measure(folder: Path | None, lengths: list[int], extent: Extent, work: Path) -> dict[str, Any]:
    """Run the three ways one after another; give what each says. No folder: the dummy model."""
    model = folder or work / "llama-3-8b"
    if folder is None:
        write_dummy_model(model)
    plan = {
        **asdict(extent),
        "model": str(model),
        "dummy": folder is None,
        "requests": str(work / "requests.parquet"),
        "lengths": drawn_lengths(lengths, extent.requests),
        "prompts": _prompts(folder, extent.rollouts),
        "ends": [LLAMA_3_8B["eos_token_id"]] if folder is None else _ends(model),
    }
    (work / "plan.json").write_text(json.dumps(plan))
    return {way: _run(way, work / "plan.json", extent) for way in ("engine", "bare", "generate")}


def _run(way: str, plan: Path, extent: Extent) -> dict[str, Any]:
    print(f"running {way}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "helpers.speed_ways", way, str(plan)]
    paths = [str(ROOT / "workflow_scripts"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    if extent.device == "cpu":  # there all three get the threads that the engine gets
        environment["OMP_NUM_THREADS"] = str(extent.threads)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _prompts(folder: Path | None, count: int) -> list[list[int]]:
    """Make prompts: drawn tokens for dummy weights, else questions."""
    if folder is None:
        generator = np.random.default_rng(1)
        return [generator.integers(1, 100_000, 200).tolist() for _ in range(count)]
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    questions = [json.loads(line)["question"] for line in QUESTIONS.read_text().splitlines()]
    return [
        tokenizer(f"{question} Let us think step by step, and at length.\n").input_ids
        for question in questions[:count]
    ]


def _ends(folder: Path) -> list[int]:
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return [tokenizer.eos_token_id]


def printed(told: Mapping[str, Any]) -> str:
    """Write what was measured as a table, and where the engine's time went."""
    bare = told["bare"]["rate"]
    ways = {
        "this engine, prefill": (told["engine"]["prefill"], told["engine"]["memory"]),
        "this engine, decode_replay": (told["engine"]["decode_replay"], told["engine"]["memory"]),
        "LLM.generate": (told["bare"], told["bare"]["memory"]),
        "transformers' generate": (told["generate"], told["generate"]["memory"]),
    }
    lines = [HEAD]
    for name, (rate, memory) in ways.items():
        lines.append(
            f"{name:34}{rate['rows']:6}{rate['tokens']:9}{rate['seconds']:9.1f}"
            f"{rate['rate']:10.0f}{rate['rate'] / bare:9.2f}{memory:7.1f}"
        )
    parts = told["engine"]["parts"]
    model = parts["steps"] - parts["draws"]
    own = parts["all"] - parts["steps"]
    lines.append(
        f"decode_replay took {parts['all']:.1f} s: vLLM's steps {model:.1f}, draws "
        f"{parts['draws']:.1f}, our loop {own:.1f}; of all of it replays {parts['replays']:.1f}"
    )
    starts = ", ".join(f"{way} {told[way]['start']:.0f} s" for way in told)
    return "\n".join([*lines, f"starts: {starts}"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="Hugging Face folder; default: dummy weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--lengths", type=Path, help="JSON list of lengths of continuations")
    parser.add_argument("--json", type=Path, help="file to write all numbers to")
    for name in ("rollouts", "pivots", "continuations", "rows", "generate_batches"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Extent, name))
    given = parser.parse_args()
    extent = Extent(
        given.device,
        rollouts=given.rollouts,
        pivots=given.pivots,
        continuations=given.continuations,
        rows=given.rows,
        generate_batches=given.generate_batches,
    )
    with tempfile.TemporaryDirectory() as work:
        lengths = list(recorded_lengths(given.lengths))
        told = measure(given.model, lengths, extent, Path(work))
    if given.json:
        given.json.write_text(json.dumps(told, indent=1))
    print(printed(told))


if __name__ == "__main__":
    main()

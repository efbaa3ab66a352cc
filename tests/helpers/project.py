"""A copy of the project in which the workflow runs for real, on the synthetic engine."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from helpers.repository import BIN
from refork.study.loading import merge

QUESTIONS = [
    {
        "id": f"c{i}",
        "question": f"Which letter is number {i}?",
        "choices": list("wxyz"),
        "answer": "B",
    }
    for i in range(3)
] + [{"id": f"n{i}", "question": f"What is {i} plus 1?", "answer": str(i + 1)} for i in range(3)]

STUDY: dict[str, Any] = {
    "study": "small",
    "questions": {"file": "questions.jsonl", "shards": 2, "permute_choices": True},
    "engine": {"kind": "synthetic", "group_questions": 1, "synthetic": {"replay_noise": 0.3}},
    "rollouts": {"count": 2, "temperature": 1.0, "top_p": 1.0, "max_tokens": 48},
    "pivots": {"max_per_rollout": 2},
    "resample": {"max_tokens": 48, "probe_tokens": 8, "temperature": 1.0, "top_p": 1.0},
}


@dataclass(frozen=True)
class Run:
    """What one call of Snakemake did: its exit status, its words, and the jobs of each rule."""

    status: int
    words: str
    jobs: dict[str, int]


@dataclass(frozen=True)
class Project:
    """A copy of the project whose demo study is the small one."""

    folder: Path

    def configure(self, **overrides: Any) -> None:
        """Write the study, with overrides of its keys."""
        study = merge(STUDY, overrides)
        (self.folder / "config" / "demo.yaml").write_text(yaml.safe_dump(study, sort_keys=False))

    def ask(self, questions: list[dict[str, Any]] | str) -> None:
        """Write the questions file."""
        lines = questions if isinstance(questions, str) else _lines(questions)
        (self.folder / "questions.jsonl").write_text(lines)

    def command(self, *arguments: str) -> list[str]:
        """Return a Snakemake call; without arguments the literal `snakemake --cores 2`."""
        return [str(BIN / "snakemake"), *(arguments or ("--cores", "2"))]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a run and leave it running."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> Run:
        """Run to the end."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        words = done.stdout + done.stderr
        return Run(done.returncode, words, jobs_of(words))

    def succeed(self, *arguments: str) -> dict[str, int]:
        """Run to the end without fault; return the jobs of each rule, `all` left out."""
        run = self.run(*arguments)
        assert run.status == 0, run.words
        return {name: jobs for name, jobs in run.jobs.items() if name != "all"}

    @property
    def results(self) -> Path:
        """Return the results folder."""
        return self.folder / "results"


def jobs_of(words: str) -> dict[str, int]:
    """Read Snakemake's table of jobs; an empty one where there was nothing to do."""
    table = re.search(r"^job +count\n[- ]+\n(.*?)^total ", words, re.MULTILINE | re.DOTALL)
    rows = table.group(1).split("\n") if table else []
    return {name: int(count) for name, count in (row.split() for row in rows if row)}


def contents(results: Path) -> dict[str, Any]:
    """Return every result by its path: bytes, and manifests without their times."""
    found: dict[str, Any] = {}
    for path in sorted(results.rglob("*")):
        name = str(path.relative_to(results))
        if not path.is_file() or path.is_symlink() or name.startswith(("logs/", ".", "journal/")):
            continue
        if any(part.is_symlink() for part in path.parents):
            continue
        if name.endswith(".manifest.json"):
            manifest = json.loads(path.read_text())
            found[name] = {k: v for k, v in manifest.items() if k not in ("started", "seconds")}
        else:
            found[name] = path.read_bytes()
    return found


def _lines(questions: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(question) + "\n" for question in questions)

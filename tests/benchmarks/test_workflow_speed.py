"""The workflow's own cost: laying out a large study, before any job runs."""

import resource
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.repository import BIN, copy_to

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

LARGE: dict[str, Any] = {
    "study": "large",
    "questions": {"file": "questions.jsonl", "shards": 500},
    "engine": {"kind": "synthetic"},
    "variants": {
        "a": {},
        "b": {"engine": {"dtype": "float32"}},
        "c": {"rollouts": {"temperature": 1.0}},
        "d": {"rollouts": {"top_p": 1.0}},
    },
}


def test_a_dry_run_of_500_shards_3_passes_and_4_variants(tmp_path: Path) -> None:
    project = copy_to(tmp_path / "project")
    (project / "questions.jsonl").write_text('{"id": "a", "question": "1 + 1?", "answer": "2"}\n')
    (project / "large.yaml").write_text(yaml.safe_dump(LARGE))
    command = [str(BIN / "snakemake"), "--dry-run", "--cores", "2", "--configfile", "large.yaml"]
    subprocess.run([BIN / "refork", "lock", "large.yaml"], cwd=project, check=True)
    start = time.perf_counter()
    done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    jobs = int(done.stdout.rsplit("\ntotal", 1)[1].split()[0])
    print(f"{jobs} jobs laid out in {seconds:.1f} s, {peak:.2f} GiB at most")
    assert jobs == 12_008  # 6 a shard and variant, the noise of each variant, and 4 of the study
    assert seconds <= 20

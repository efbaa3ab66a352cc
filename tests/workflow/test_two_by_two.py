"""The two-by-two study on the real model, with few questions: what differs, and what must not."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.repository import BIN, ROOT, copy_to
from refork.study.loading import merge

pytestmark = [pytest.mark.workflow, pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1800)]

STUDY = Path("config/studies/two-by-two.yaml")
FEW: dict[str, Any] = {
    "questions": {"limit": 4},
    "engine": {"device": "cpu", "group_questions": 4, "batch_rows": 16},
    "rollouts": {"max_tokens": 16},
    "resample": {"max_tokens": 12, "probe_tokens": 4},
}


def run(folder: Path, command: list[str]) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy in which `make two-by-two` has run; `.venv` stands where this Python is."""
    folder = copy_to(tmp_path_factory.mktemp("two-by-two"))
    few = merge(yaml.safe_load((ROOT / STUDY).read_text()), FEW)
    (folder / STUDY).write_text(yaml.safe_dump(few, sort_keys=False))
    shown = run(folder, ["make", "-o", ".venv/ready", "two-by-two", f"BIN={BIN}"])
    assert "re-fed token by token, shuffled" in shown
    return folder


def test_kernels_feeding_and_order(folder: Path) -> None:
    command = [str(BIN / "refork"), "agreement", "results/two-by-two"]
    rows = json.loads(run(folder, [*command, "--json"]))["passes"]
    same = {(row["variant"], row["pass"]): row["same_tokens"] for row in rows}
    assert len(same) == 2 * 6
    assert all(rate["whole"] > 20 and rate["problems"] > 1 for rate in same.values())

    invariant = [row for row in rows if row["variant"] == "batch_invariant"]
    for row in invariant:
        # A prefill is another kernel; all else is the same numbers, whatever the order.
        if row["state"] != "prefill":
            assert row["same_tokens"]["value"] == row["same_outcomes"]["value"] == 1
            assert row["changed_credits"]["part"] == 0
            assert row["same_probes"]["value"] == 1
            assert row["largest_delta"] == 0
        else:
            assert row["largest_delta"] > 0
    assert same["stock", "replica"]["value"] == 1
    refeeds = [row for row in rows if row["variant"] == "stock" and row["state"] == "prefill"]
    assert all(row["largest_delta"] > 0 for row in refeeds)

    table = run(folder, [*command, "--markdown"])
    assert len(re.findall(r"^\| (?:stock|batch_invariant) \|", table, re.MULTILINE)) == 2 + 12

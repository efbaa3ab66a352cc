"""The study of replay noise in vLLM: its questions, and that it is the paper's shape."""

from pathlib import Path

import pytest

from helpers.repository import ROOT
from refork.cli.main import main
from refork.study.loading import load_files

STUDY = ROOT / "config" / "studies" / "replay-noise.yaml"


def test_its_questions_are_made_anew_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    comment = next(line for line in STUDY.read_text().splitlines() if "refork questions" in line)
    assert main(comment.split()[2:]) == 0
    for name in ("replay_noise.jsonl", "arithmetic_examples.yaml"):
        made = Path("config/questions") / name
        assert made.read_bytes() == (ROOT / made).read_bytes()


def test_it_compares_passes_of_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    settings = load_files(STUDY).settings
    order = {item.name: item.order_seed for item in settings.passes}
    state = {item.name: item.state for item in settings.passes}
    assert settings.passes[0].name == "exact"
    for comparison in settings.noise.comparisons:
        assert order[comparison.treatment] == order[comparison.floor]
        assert (state[comparison.treatment], state[comparison.floor]) == ("prefill", "exact")
    assert len(settings.noise.comparisons) == 2

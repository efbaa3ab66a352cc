"""The vLLM engine against bare vLLM and against transformers, on the same requests in one run."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from helpers.speed_models import recorded_lengths
from helpers.vllm_speed import Extent, measure, printed

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.model,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not in this environment"),
]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
LEAST_OF_BARE, LEAST_OF_GENERATE = 0.95, 5.0
SMALL = Extent(
    "cpu",
    rollouts=2,
    pivots=2,
    continuations=4,
    rollout_tokens=64,
    context=512,
    rows=16,
    generate_rows=16,
    generate_batches=1,
    cache_gib=1.0,
)
"""Enough to see that all three ways do the same work; too little to hold their speeds together."""


def test_the_three_ways_do_the_same_work(smollm2: Path, tmp_path: Path) -> None:
    told = measure(smollm2, [8, 24], SMALL, tmp_path)
    print(f"\n{printed(told)}")
    engine, rows = told["engine"], SMALL.requests
    assert engine["requests"] == rows == told["bare"]["rows"] == engine["prefill"]["rows"]
    assert engine["decode_replay"]["rows"] == rows
    assert told["generate"]["rows"] == SMALL.generate_rows
    for rate in (engine["prefill"], engine["decode_replay"], told["bare"]):
        assert rows <= rate["tokens"] <= rows * 24
    parts = engine["parts"]
    assert 0 < parts["draws"] < parts["steps"] < parts["all"]
    assert 0 < parts["replays"] < parts["all"]


@GPU
@pytest.mark.parametrize("model", ["smollm2", "dummy llama-3-8b"])
def test_throughput_on_a_gpu(model: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = request.getfixturevalue(model) if model == "smollm2" else None
    told = measure(folder, list(recorded_lengths(None)), Extent("cuda"), tmp_path)
    print(f"\n{model}\n{printed(told)}")
    bare, generate = told["bare"]["rate"], told["generate"]["rate"]
    assert told["engine"]["prefill"]["rate"] >= LEAST_OF_BARE * bare
    assert told["engine"]["decode_replay"]["rate"] >= LEAST_OF_GENERATE * generate

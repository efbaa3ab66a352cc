"""Three ways to continue the same requests, each in a process of its own.

`python -m helpers.speed_ways WAY FILE.json` prints one line of JSON. The way `engine` makes the
requests, in the file that it is told; the others read them.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from refork.data.schemas import REQUESTS
from refork.data.tables import Row, from_rows
from refork.engines.interface import EngineSettings, VllmSettings
from refork.engines.seeds import request_seed

GIBIBYTE = 2**30
SAMPLING = {"temperature": 0.7, "top_p": 0.95}


def by_engine(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Sample rollouts, then resample from their pivots in both states."""
    from refork.engines.vllm.engine import VllmEngine  # noqa: PLC0415 - sets the environment

    begin = time.perf_counter()
    engine = VllmEngine(_settings(plan), Path(plan["model"]))
    started = time.perf_counter() - begin
    fresh = from_rows([_fresh(plan, number) for number in range(len(plan["prompts"]))], REQUESTS)
    rollouts = engine.run_group(fresh, None, None).to_pylist()
    requests = _resampled(plan, fresh.to_pylist(), rollouts)
    pq.write_table(from_rows(requests, REQUESTS), plan["requests"])
    told: dict[str, Any] = {"start": started, "requests": len(requests)}
    for state in ("prefill", "decode_replay"):
        table = from_rows([row | {"state": state} for row in requests], REQUESTS)
        engine.run_group(table.slice(0, 8), None, None)  # what happens once only is not measured
        begin = time.perf_counter()
        results = engine.run_group(table, None, None)
        seconds = time.perf_counter() - begin
        told[state] = _rate(_lengths(results), seconds)
    # Timed apart, for waiting for the GPU before each draw costs time of its own.
    with _timed(engine, plan["device"]) as parts:
        begin = time.perf_counter()
        engine.run_group(table, None, None)
        parts["all"] = time.perf_counter() - begin
    told["parts"] = parts
    return told | {"memory": _memory(plan["device"])}


def by_bare(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Continue by `LLM.generate`, with the same seeds and sampling parameters."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    from vllm import LLM, SamplingParams  # noqa: PLC0415 - reads the environment

    begin = time.perf_counter()
    llm = LLM(**_bare_arguments(plan))
    started = time.perf_counter() - begin
    rows = pq.read_table(plan["requests"]).to_pylist()
    prompts = [{"prompt_token_ids": _known(row)} for row in rows]
    asked = [
        SamplingParams(
            **SAMPLING,
            seed=row["seed"] % 2**63,
            max_tokens=row["max_tokens"],
            logprobs=0,
            detokenize=False,
            stop_token_ids=plan["ends"],
            ignore_eos=True,
        )
        for row in rows
    ]
    llm.generate(prompts[:8], asked[:8], use_tqdm=False)
    llm.reset_prefix_cache()
    begin = time.perf_counter()
    outputs = llm.generate(prompts, asked, use_tqdm=False)
    seconds = time.perf_counter() - begin
    lengths = [len(output.outputs[0].token_ids) for output in outputs]
    return {"start": started, "memory": _memory(plan["device"]), **_rate(lengths, seconds)}


def by_generate(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Continue by transformers, in left-padded batches until the longest row has ended."""
    begin = time.perf_counter()
    model, device = _transformers_model(plan), plan["device"]
    started = time.perf_counter() - begin
    rows = pq.read_table(plan["requests"]).to_pylist()
    size = plan["generate_rows"]
    batches = [rows[first : first + size] for first in range(0, len(rows), size)]
    torch.manual_seed(0)
    _generate(model, batches[0], plan, 2)
    begin, lengths = time.perf_counter(), []
    for batch in batches[: plan["generate_batches"]]:
        lengths += _generate(model, batch, plan, max(row["max_tokens"] for row in batch))
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return {"start": started, "memory": _memory(device), **_rate(lengths, seconds)}


def _settings(plan: Mapping[str, Any]) -> EngineSettings:
    return EngineSettings(
        kind="vllm",
        device=plan["device"],
        dtype="bfloat16",
        threads=plan["threads"],
        batch_rows=plan["rows"],
        vllm=VllmSettings(
            max_length=plan["context"],
            cache_gib=plan["cache_gib"],
            arguments={"load_format": "dummy"} if plan["dummy"] else {},
        ),
    )


def _bare_arguments(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as a user of vLLM gives them: its own ways of running, our sizes."""
    arguments: dict[str, Any] = {
        "model": plan["model"],
        "skip_tokenizer_init": True,
        "dtype": "bfloat16",
        "max_num_seqs": plan["rows"],
        "max_model_len": plan["context"],
        "seed": 0,
    }
    if plan["cache_gib"] is not None:
        arguments["kv_cache_memory_bytes"] = int(plan["cache_gib"] * GIBIBYTE)
    if plan["dummy"]:
        arguments["load_format"] = "dummy"
    if plan["device"] == "cpu":
        # As the engine: a chunked prompt of a seeded request fails there.
        arguments |= {"enforce_eager": True, "enable_chunked_prefill": False, "block_size": 32}
    return arguments


def _transformers_model(plan: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415 - slow

    models: Any = AutoModelForCausalLM
    if plan["dummy"]:
        config: Any = AutoConfig.from_pretrained(plan["model"])
        with torch.device(plan["device"]):
            return models.from_config(config, dtype=torch.bfloat16).eval()
    return models.from_pretrained(plan["model"], dtype=torch.bfloat16).to(plan["device"]).eval()


def _generate(model: Any, batch: list[Row], plan: Mapping[str, Any], most: int) -> list[int]:
    """Continue one batch; give the useful tokens of each row."""
    prompts, ends = [_known(row) for row in batch], plan["ends"]
    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    with torch.inference_mode():
        out = model.generate(
            torch.tensor(ids, device=plan["device"]),
            attention_mask=torch.tensor(mask, device=plan["device"]),
            max_new_tokens=most,
            do_sample=True,
            top_k=0,
            eos_token_id=ends,
            pad_token_id=ends[0],
            **SAMPLING,
        )
    return [
        min(row["max_tokens"], useful(tokens, ends))
        for row, tokens in zip(batch, out[:, longest:].tolist(), strict=True)
    ]


def useful(tokens: list[int], ends: list[int]) -> int:
    """Count tokens up to and including the first end."""
    return next((place for place, token in enumerate(tokens, 1) if token in ends), len(tokens))


def _fresh(plan: Mapping[str, Any], number: int) -> Row:
    prompt = plan["prompts"][number]
    return _request(number, number, "fresh", prompt, len(prompt), plan["rollout_tokens"], draw=-1)


def _resampled(plan: Mapping[str, Any], fresh: list[Row], rollouts: list[Row]) -> list[Row]:
    """Make requests that go on from pivots spread over each rollout, each with a drawn length."""
    rows: list[Row] = []
    lengths = iter(plan["lengths"])
    for base, rollout in zip(fresh, rollouts, strict=True):
        generated, prompt = rollout["token_ids"], base["token_ids"]
        for place in range(plan["pivots"]):
            cut = 1 + place * (len(generated) - 1) // plan["pivots"]
            # The forced token is the recorded one, or one that stands elsewhere in the rollout.
            for forced in (generated[cut % len(generated)], generated[0]):
                for draw in range(plan["continuations"]):
                    row = _request(
                        len(rows), base["rollout"], "prefill", prompt + generated[:cut],
                        len(prompt), next(lengths), draw=draw,
                    )  # fmt: skip
                    rows.append(
                        row | {"forced_token": forced, "logprobs": rollout["logprobs"][:cut]}
                    )
    return rows


def _request(
    number: int, rollout: int, state: str, tokens: list[int], prompt: int, most: int, *, draw: int
) -> Row:
    return {
        "request": number,
        "question_id": "q",
        "rollout": rollout,
        "state": state,
        "prompt_length": prompt,
        "token_ids": tokens,
        "logprobs": None,
        "forced_token": None,
        "seed": request_seed(0, "q", rollout, position=len(tokens), draw=draw),
        **SAMPLING,
        "top_k": 0,
        "max_tokens": most,
        "top_logprobs": 0,
        "keep_snapshot": False,
    }


def _known(row: Row) -> list[int]:
    return [*row["token_ids"], row["forced_token"]]


def _lengths(results: pa.Table) -> list[int]:
    return [len(tokens) for tokens in results.column("token_ids").to_pylist()]


def _rate(lengths: list[int], seconds: float) -> dict[str, Any]:
    return {
        "rows": len(lengths),
        "tokens": sum(lengths),
        "seconds": seconds,
        "rate": sum(lengths) / seconds,
    }


@contextmanager
def _timed(engine: Any, device: str) -> Iterator[dict[str, float]]:
    """Add up the seconds in vLLM's steps, in the draws within them, and in the replays."""
    from refork.engines.vllm import loop, worker  # noqa: PLC0415 - imports vLLM

    parts = {"steps": 0.0, "draws": 0.0, "replays": 0.0}
    vllm, step = engine._loaded.engine, engine._loaded.engine.step
    apply, run = worker.DrawProcessor.apply, loop.Loop.run
    runs: list[int] = []

    def timed_step() -> Any:
        begin = time.perf_counter()
        given = step()
        parts["steps"] += time.perf_counter() - begin
        return given

    def timed_apply(self: Any, logits: torch.Tensor) -> torch.Tensor:
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        given = apply(self, logits)
        parts["draws"] += time.perf_counter() - begin
        return given

    def timed_run(self: Any, requests: Any) -> Iterator[Any]:
        runs.append(1)
        begin, first = time.perf_counter(), len(runs) == 1
        yield from run(self, requests)
        if first:
            parts["replays"] = time.perf_counter() - begin

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vllm, "step", timed_step)
        patch.setattr(worker.DrawProcessor, "apply", timed_apply)
        patch.setattr(loop.Loop, "run", timed_run)
        yield parts


def _memory(device: str) -> float:
    """Memory in GiB: of the GPU, as it is now; on a CPU this process's at most."""
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        return float(total - free) / GIBIBYTE
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / GIBIBYTE


WAYS = {"engine": by_engine, "bare": by_bare, "generate": by_generate}

if __name__ == "__main__":
    told = WAYS[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))
    print(f"\n{json.dumps(told)}", flush=True)

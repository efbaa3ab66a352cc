"""What a kind of engine on a device cannot do of what a config asks for, said in words.

Both are known from the config, or settled by the lock where the config leaves them open.
"""

from collections.abc import Iterator

from refork.engines.describe import BLOCK_SIZES, exact_state
from refork.study.config import Settings

GIVEN_ARGUMENTS = {
    "async_scheduling": "",
    "block_size": "engine.vllm.block_size",
    "disable_log_stats": "",
    "dtype": "engine.dtype",
    "enable_prefix_caching": "",
    "kv_cache_memory_bytes": "engine.vllm.cache_gib",
    "kv_transfer_config": "engine.vllm.snapshots",
    "logits_processors": "",
    "max_model_len": "engine.vllm.max_length",
    "max_num_seqs": "engine.batch_rows",
    "model": "model",
    "seed": "seed",
    "skip_tokenizer_init": "",
    "tensor_parallel_size": "engine.vllm.tensor_parallel",
    "tokenizer": "model",
    "trust_remote_code": "model.trust_remote_code",
    "worker_extension_cls": "",
}
"""Arguments of vLLM that other keys give (which), or that the engine itself has to give."""
_CPU_BLOCK = BLOCK_SIZES["cpu"]  # tokens, of which a block on the CPU holds a multiple


def engine_faults(settings: Settings, kind: str, device: str) -> Iterator[tuple[str, str]]:
    """Yield (key path, words) for all that this kind of engine cannot do on this device.

    Of a kind or a device that is still `auto`, only what is wrong in any case is said.
    """
    yield from _states(settings, kind)
    if kind == "vllm":
        yield from _vllm(settings)
        yield from _vllm_on(settings, device)


def _states(settings: Settings, kind: str) -> Iterator[tuple[str, str]]:
    kept = settings.rollouts.snapshots
    keeps = settings.engine.vllm.snapshots
    exact = exact_state(kind, keeps)
    states = {f"passes.{index}.state": item.state for index, item in enumerate(settings.passes)}
    if settings.curves.questions != 0:
        states["curves.state"] = settings.curves.state
    for where, state in states.items():
        if kind == "vllm" and state == "snapshot" and not keeps:
            words = "vLLM keeps no snapshots; take `exact`, its own decode-time state"
            yield where, f"{words}, or set `engine.vllm.snapshots: true`"
        elif state == "snapshot" and not kept:
            yield where, "`snapshot` needs `rollouts.snapshots: true`"
        elif state == "exact" and exact == "snapshot" and not kept:
            words = f"`exact` is `snapshot` for the {kind} engine, and needs"
            yield where, f"{words} `rollouts.snapshots: true`"


def _vllm(settings: Settings) -> Iterator[tuple[str, str]]:
    engine, vllm = settings.engine, settings.engine.vllm
    if engine.processes > 1:
        yield (
            "engine.processes",
            f"is {engine.processes}; vLLM runs in one process a job: divide the questions among "
            "jobs by `questions.shards`",
        )
    if vllm.filler_rows > engine.batch_rows:
        yield (
            "engine.vllm.filler_rows",
            f"is {vllm.filler_rows}; at most `engine.batch_rows`, {engine.batch_rows}",
        )
    if vllm.snapshots and vllm.tensor_parallel > 1:
        words = "snapshots are kept of one GPU, but `engine.vllm.tensor_parallel` is"
        yield "engine.vllm.snapshots", f"{words} {vllm.tensor_parallel}"
    for name in vllm.arguments:
        if name in GIVEN_ARGUMENTS:
            key = GIVEN_ARGUMENTS[name]
            words = f"it is given by the key `{key}`" if key else "the engine itself gives it"
            yield f"engine.vllm.arguments.{name}", f"leave it out: {words}"


def _vllm_on(settings: Settings, device: str) -> Iterator[tuple[str, str]]:
    engine, vllm = settings.engine, settings.engine.vllm
    if device == "cpu":
        if engine.kernels == "batch_invariant":
            yield (
                "engine.kernels",
                "vLLM has no batch-invariant kernels for the CPU; take `stock`, with "
                "`engine.vllm.filler_rows: 40` against the batch's effect, or `engine.kind: torch`",
            )
        if vllm.block_size is not None and vllm.block_size % _CPU_BLOCK:
            words = f"on the CPU a multiple of {_CPU_BLOCK}"
            yield "engine.vllm.block_size", f"is {vllm.block_size}; {words}"
        if vllm.tensor_parallel > 1:
            yield "engine.vllm.tensor_parallel", f"is {vllm.tensor_parallel}; 1 on the CPU"
    if device == "cuda":
        demands = settings.resources
        for rule, demand in (
            ("sample_rollouts", demands.sample_rollouts),
            ("resample", demands.resample),
        ):
            if demand.gpu is not None and demand.gpu < vllm.tensor_parallel:
                yield (
                    f"resources.{rule}.gpu",
                    f"is {demand.gpu}; one engine runs on {vllm.tensor_parallel} "
                    "(`engine.vllm.tensor_parallel`); null asks for as many",
                )

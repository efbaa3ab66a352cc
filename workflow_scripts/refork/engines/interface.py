"""The interface of every engine: a batch group of Arrow requests in, Arrow results out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

ROLLOUT_ID = "{question_id}/{rollout}"
_REPLAYED = "replayed_tokens"


@dataclass(frozen=True)
class SyntheticSettings:
    """Noise and pace of the synthetic engine (config `engine.synthetic`)."""

    replay_noise: float = 0.0
    batch_noise: float = 0.0
    step_seconds: float = 0.0


@dataclass(frozen=True)
class VllmSettings:
    """What the vLLM engine is started with (config `engine.vllm`).

    `tail` says how what lies behind the last full block of a resumed prefix is recomputed: prefill
    is vLLM's own way, decode forces it through the decode kernels.
    """

    tail: str = "prefill"
    block_size: int | None = None  # tokens; None: the default of the device
    filler_rows: int = 0  # rows that every decode step holds at least
    tensor_parallel: int = 1  # GPUs of one engine
    cache_gib: float | None = None  # key-value cache; None: 2 on the CPU, vLLM's own share on CUDA
    max_length: int | None = None  # tokens of a sequence at most; None: the model's context
    arguments: Mapping[str, Any] = field(default_factory=dict)  # further arguments of vllm.LLM
    snapshots: bool = False  # whether states can be written to files and read from them


@dataclass(frozen=True)
class EngineSettings:
    """What an engine is started with; everything here changes results and is in the stage's hash.

    `kernels` is stock or batch_invariant. `shuffled` says that the requests come in another order
    than the rollouts did.
    """

    kind: str
    device: str
    dtype: str
    threads: int
    batch_rows: int
    kernels: str = "stock"
    trust_remote_code: bool = False
    shuffled: bool = False
    synthetic: SyntheticSettings = field(default_factory=SyntheticSettings)
    vllm: VllmSettings = field(default_factory=VllmSettings)


@dataclass(frozen=True)
class EngineFacts:
    """What an engine says of itself once it is loaded.

    `context_length` is in tokens; `fingerprint` goes into every manifest: versions, device, dtype,
    kernels.
    """

    context_length: int
    fingerprint: Mapping[str, str]


def with_replayed_tokens(results: pa.Table, tokens: int) -> pa.Table:
    """Note on results how many generated tokens were decoded once more to reach their states."""
    return results.replace_schema_metadata({_REPLAYED: str(tokens)})


def replayed_tokens(results: pa.Table) -> int:
    """Read off results how many tokens were decoded once more; 0 where nothing is noted."""
    return int((results.schema.metadata or {}).get(_REPLAYED.encode(), 0))


class Engine(Protocol):
    """A loaded model that runs batch groups; nothing is batched or remembered across groups."""

    facts: EngineFacts

    def run_group(
        self, requests: pa.Table, snapshots_in: Path | None, snapshots_out: Path | None
    ) -> pa.Table:
        """Run one batch group (`data.schemas.REQUESTS`); give `data.schemas.RESULTS` in its order.

        Snapshots are read from `snapshots_in` (requests in state `snapshot`) and written to
        `snapshots_out` (requests with `keep_snapshot`): one safetensors file, tensors named by
        `ROLLOUT_ID`.

        Of a resumed prefix, `cached_tokens` were taken over and `recomputed_tokens` fed again; a
        base rollout (`fresh`) has neither. `fidelity` is 0 where a state was taken over bit for bit
        and null where nothing can be compared. Nothing is drawn behind a forced end token.
        `replayed_tokens` of the results is the cost of states that were decoded once more for
        several requests, which no request can be charged with.

        Raises
        ------
        EngineError
            A request does not fit the context, or a promise was broken; the message names the
            question.
        """
        ...

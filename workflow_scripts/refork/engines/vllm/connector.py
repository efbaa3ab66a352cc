"""A key-value connector of vLLM that keeps decode-time states and goes on from them at any token.

vLLM imports this module by its name. A state is the blocks of a request, copied whole as they lie
in the cache [layers, blocks, ...], so that the layout within a block, which an attention backend
chooses, does not matter. The scheduler's connector says what is to be copied in a step, and the
worker's copies it before anything is computed in that step.

vLLM lets the workers of a process have one connector, and asks it in every step of every engine.
So an engine has one only while it runs a batch group: `begin` and `end`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.kv_transfer import (
    ensure_kv_transfer_initialized,
    ensure_kv_transfer_shutdown,
    get_kv_transfer_group,
)
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)

from refork.engines.vllm.instructions import Transfer


def begin(worker: Any) -> None:
    """Give the worker of an engine its connector."""
    ensure_kv_transfer_shutdown()
    ensure_kv_transfer_initialized(worker.vllm_config, worker.model_runner.kv_cache_config)


def end(worker: Any) -> dict[str, torch.Tensor]:
    """Take it away; give the states that it kept, by rollout id."""
    states: dict[str, torch.Tensor] = get_kv_transfer_group().states
    ensure_kv_transfer_shutdown()
    return states


@dataclass(frozen=True)
class Keeping:
    """Blocks of a request that has finished; they are not used again until they are copied."""

    request: str  # vLLM's name of it
    rollout: str
    blocks: list[int]


@dataclass(frozen=True)
class Loading:
    """Blocks of a request that are filled from a snapshot: its blocks from `first` on."""

    transfer: Transfer
    first: int
    blocks: list[int]


@dataclass
class Step(KVConnectorMetadata):  # type: ignore[misc] # vLLM's classes are Any here
    """What the worker does before a step."""

    blocks: int  # of the cache
    kept: list[Keeping] = field(default_factory=list)
    cleared: list[int] = field(default_factory=list)
    loaded: list[Loading] = field(default_factory=list)


class SnapshotConnector(KVConnectorBase_V1):  # type: ignore[misc] # vLLM's classes are Any here
    """Both sides of the connector, of which vLLM makes one object each."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        """Start with nothing to do; the arguments are vLLM's."""
        super().__init__(vllm_config, role, kv_cache_config)
        self.states: dict[str, torch.Tensor] = {}  # [layers, blocks, values], on the CPU
        self._block_size = int(vllm_config.cache_config.block_size)
        self._cache = vllm_config.cache_config
        self._layers = vllm_config.compilation_config.static_forward_context
        self._step = Step(0)
        self._keeping: set[str] = set()
        self._copied: set[str] = set()

    # What vLLM's scheduler calls.

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Count the tokens of a new request that a snapshot holds beyond those found cached."""
        transfer = _transfer(request)
        if transfer is None or transfer.file is None or request.num_computed_tokens:
            return 0, False
        return max(0, transfer.tokens - num_computed_tokens), False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Note which blocks of a request that enters are to be filled."""
        transfer = _transfer(request)
        if transfer is None:
            return
        if transfer.keeps:
            self._keeping.add(request.request_id)
        if num_external_tokens:
            (numbers,) = blocks.get_block_ids()
            first = (transfer.tokens - num_external_tokens) // self._block_size
            filled = numbers[first : self._blocks(transfer.tokens)]
            self._step.loaded.append(Loading(transfer, first, list(filled)))

    def build_connector_meta(self, scheduler_output: Any) -> Step:
        """Say what is done before this step.

        New blocks of states that will be kept are cleared, so that what lies behind their last
        token is 0 and not what was there before.
        """
        step, self._step = self._step, Step(0)
        step.blocks = int(self._cache.num_gpu_blocks)
        for new in scheduler_output.scheduled_new_reqs:
            if new.req_id in self._keeping:
                (numbers,) = new.block_ids
                step.cleared += numbers[new.num_computed_tokens // self._block_size :]
        running = scheduler_output.scheduled_cached_reqs
        for name, added in zip(running.req_ids, running.new_block_ids, strict=True):
            if added and name in self._keeping:
                step.cleared += added[0]
        return step

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        """Hold the blocks of a state until they are copied."""
        if request.request_id not in self._keeping:
            return False, None
        self._keeping.remove(request.request_id)
        transfer = _transfer(request)
        fed = self._blocks(request.num_tokens - 1)  # the last token came out only
        if transfer is None or not block_ids:
            return False, None
        self._step.kept.append(Keeping(request.request_id, transfer.rollout, block_ids[:fed]))
        return True, None

    # What vLLM's worker calls.

    def register_kv_caches(self, kv_caches: Mapping[str, torch.Tensor]) -> None:
        """Look at the caches of the layers when an engine starts.

        Raises
        ------
        ValueError
            They differ in shape or dtype, so a state is not one tensor.
        """
        if len({(cache.shape, cache.dtype) for cache in kv_caches.values()}) != 1:
            raise ValueError(
                "engine.vllm.snapshots: the layers of this model keep states of different shapes; "
                "set it to false"
            )

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        """Copy states out and clear blocks: here, for loads may be started after the step."""
        super().bind_connector_metadata(connector_metadata)
        step = self._get_connector_metadata()
        caches = self._caches(step) if step.kept or step.cleared else []
        for kept in step.kept:
            blocks = [cache[kept.blocks].flatten(1).cpu() for cache in caches]
            self.states[kept.rollout] = torch.stack(blocks)
            self._copied.add(kept.request)
        if step.cleared:
            for cache in caches:
                cache[step.cleared] = 0

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Copy states in: before the step, where one waits for them."""
        step = self._get_connector_metadata()
        for loading in step.loaded:
            _load(loading, self._caches(step))

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, None]:
        """Name the requests whose blocks may be used again."""
        copied, self._copied = self._copied, set()
        return copied or None, None

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Wait for nothing: a step starts with all that is loaded."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Keep nothing: a state is copied once its request has finished."""

    def wait_for_save(self) -> None:
        """Wait for nothing."""

    def _blocks(self, tokens: int) -> int:
        """Count the blocks that hold so many tokens."""
        return -(-tokens // self._block_size)

    def _caches(self, step: Step) -> list[torch.Tensor]:
        """Give the caches of the layers, with blocks first."""
        caches = [layer.kv_cache for layer in self._layers.values() if hasattr(layer, "kv_cache")]
        caches = [cache[0] if isinstance(cache, list) else cache for cache in caches]
        return [cache.movedim([*cache.shape].index(step.blocks), 0) for cache in caches]


def _transfer(request: Any) -> Transfer | None:
    return Transfer.unpacked(request.kv_transfer_params)


def _load(loading: Loading, caches: Iterable[torch.Tensor]) -> None:
    end = loading.first + len(loading.blocks)
    with safe_open(str(loading.transfer.file), framework="pt") as file:
        state = file.get_slice(loading.transfer.rollout)[:, loading.first : end]
    for cache, blocks in zip(caches, state, strict=True):
        cache[loading.blocks] = blocks.to(cache.device).unflatten(1, cache.shape[1:])

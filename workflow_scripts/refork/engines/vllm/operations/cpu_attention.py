"""Attention of sequences by vLLM's kernel for CPUs."""

import torch

from refork.engines.vllm.operations.sequences import Attend, Call, Sequences, paged
from refork.engines.vllm.operations.vllm_parts import (
    AbsentError,
    own_kernel,
    vllm_kernel,
    vllm_part,
)


def cpu_attention(sequences: Sequences) -> Attend:
    """Attend by vLLM's kernel for CPUs."""
    target, shape = sequences.target, sequences.shape
    if target.device != "cpu":
        raise AbsentError("a kernel for CPUs")
    own_kernel("cpu_attention_with_kv_cache")
    part = {
        name: vllm_kernel(name, "vllm._custom_ops")
        for name in (
            "cpu_attn_reshape_and_cache",
            "cpu_attn_get_scheduler_metadata",
            "cpu_attention_with_kv_cache",
        )
    }
    isa = vllm_part("_get_attn_isa", "vllm.v1.attention.backends.cpu_attn")(
        target.dtype, sequences.page, shape.head_size
    )
    size = (sequences.pages, shape.kv_heads, sequences.page, shape.head_size)
    keys, values = (torch.zeros(size, dtype=target.dtype) for _ in range(2))
    part["cpu_attn_reshape_and_cache"](
        torch.cat(sequences.keys), torch.cat(sequences.values), keys, values, sequences.slots, isa
    )

    def run(call: Call) -> torch.Tensor:
        out = torch.empty_like(call.queries)
        shared = {"query_start_loc": call.starts, "seq_lens": call.lengths, "causal": True}
        schedule = part["cpu_attn_get_scheduler_metadata"](
            num_reqs=len(call.lengths),
            num_heads=shape.heads,
            num_kv_heads=shape.kv_heads,
            head_dim=shape.head_size,
            dtype=target.dtype,
            sliding_window_size=-1,
            isa=isa,
            enable_kv_split=True,
            **shared,
        )
        part["cpu_attention_with_kv_cache"](
            query=call.queries,
            key_cache=keys,
            value_cache=values,
            output=out,
            scale=call.scale,
            alibi_slopes=None,
            sliding_window=-1,
            block_table=call.tables,
            softcap=0.0,
            scheduler_metadata=schedule,
            s_aux=None,
            **shared,
        )
        return out

    return paged(sequences, run)

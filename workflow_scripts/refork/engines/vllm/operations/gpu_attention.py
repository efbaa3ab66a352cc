"""Attention of sequences by vLLM's kernels for GPUs."""

from collections.abc import Callable

import torch

from refork.engines.vllm.operations.sequences import (
    Attend,
    Call,
    Sequences,
    filled_pages,
    paged,
)
from refork.engines.vllm.operations.vllm_parts import AbsentError, vllm_kernel, vllm_part

SEGMENTS = 16
"""Parts into which vLLM's Triton decode cuts the keys of a few sequences (its constant)."""
LEAST_GRID = 128
"""Below so many programs its decode is cut (its constant)."""


def flash_attention(version: int, splits: int) -> Callable[[Sequences], Attend]:
    """Attend by vLLM's FlashAttention of a version; `splits` 0 lets it cut the keys as it likes."""

    def make(sequences: Sequences) -> Attend:
        if sequences.target.device != "cuda":
            raise AbsentError("a kernel for GPUs")
        module = "vllm.vllm_flash_attn.flash_attn_interface"
        reason = vllm_part("fa_version_unsupported_reason", module)(version)
        if reason:
            raise AbsentError(reason)
        attend = vllm_kernel("flash_attn_varlen_func", module)
        keys, values = filled_pages(sequences)

        def run(call: Call) -> torch.Tensor:
            result: torch.Tensor = attend(
                call.queries,
                keys,
                values,
                num_splits=splits,
                fa_version=version,
                **call.of_flash,
            )
            return result

        return paged(sequences, run)

    return make


def triton_attention(cut: bool) -> Callable[[Sequences], Attend]:
    """Attend by vLLM's unified Triton kernel; `cut`: decodes of few sequences cut their keys."""

    def make(sequences: Sequences) -> Attend:
        if sequences.target.device != "cuda":
            raise AbsentError("a Triton kernel: needs a GPU")
        attend = vllm_kernel("unified_attention", "vllm.v1.attention.ops.triton_unified_attention")
        keys, values = filled_pages(sequences)
        further = _segments(sequences) if cut else {}

        def run(call: Call) -> torch.Tensor:
            out = torch.empty_like(call.queries)
            attend(
                q=call.queries,
                k=keys,
                v=values,
                out=out,
                window_size=(-1, -1),
                softcap=0,
                q_descale=None,
                k_descale=None,
                v_descale=None,
                **call.of_flash,
                **further,
            )
            return out

        return paged(sequences, run)

    return make


def _segments(sequences: Sequences) -> dict[str, object]:
    """Room for the parts of a cut decode, as vLLM's backend makes it."""
    shape, device = sequences.shape, sequences.target.device
    few = LEAST_GRID // shape.kv_heads
    size = (few, shape.heads, SEGMENTS)
    wide = 1 << (shape.head_size - 1).bit_length()
    return {
        "seq_threshold_3D": few,
        "num_par_softmax_segments": SEGMENTS,
        "softmax_segm_output": torch.empty(*size, wide, device=device),
        "softmax_segm_max": torch.empty(size, device=device),
        "softmax_segm_expsum": torch.empty(size, device=device),
    }

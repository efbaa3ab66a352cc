"""Attention of sequences: as whole prefills, as the tails of resumed ones, and as decode steps."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own pages name it

from refork.engines.describe import BLOCK_SIZES
from refork.engines.vllm.operations.comparing import Compared, Operation, Output, compared
from refork.engines.vllm.operations.gpu_attention import flash_attention, triton_attention
from refork.engines.vllm.operations.models import ModelShape
from refork.engines.vllm.operations.sequences import Attend, Call, Sequences, paged
from refork.engines.vllm.operations.target import Target
from refork.engines.vllm.operations.vllm_parts import AbsentError, own_kernel, vllm_part

TAIL = 9
"""Tokens of a resumed prefix that are fed again."""
PHASES: dict[str, int | None] = {
    "attention prefill": None,
    "attention tail": TAIL,
    "attention decode": 1,
}
"""How many of the last tokens of every sequence are queries; None: all."""


def attention_operations(
    shape: ModelShape, target: Target, count: int
) -> Iterator[tuple[str, str, Callable[[], Operation]]]:
    """Yield name, kernel and maker of every attention of a model."""
    sequences = Sequences(shape, target, count, page=BLOCK_SIZES[target.device])
    for kernel, make in KERNELS.items():
        for name, last in PHASES.items():
            yield name, kernel, _maker(name, kernel, sequences, make, last)


def _maker(
    name: str,
    kernel: str,
    sequences: Sequences,
    make: Callable[[Sequences], Attend],
    last: int | None,
) -> Callable[[], Operation]:
    def operation() -> Operation:
        attend = make(sequences)
        return Operation(
            name, kernel, "sequences", sequences.count, lambda numbers: attend(numbers, last)
        )

    return operation


def against_prefill(whole: Output, part: Output) -> Compared:
    """Hold the last tokens of every sequence against the same tokens of the whole prefill."""
    ends = [one[-len(other) :] for one, other in zip(whole, part, strict=True)]
    return compared(ends, range(len(ends)), list(part))


def torch_attention(sequences: Sequences) -> Attend:
    """Attend by torch's scaled dot product, padded to the longest as transformers does."""

    def attend(numbers: Sequence[int], last: int | None) -> list[torch.Tensor]:
        lengths = [sequences.lengths[number] for number in numbers]
        asked = [sequences.queries[number][-last if last else 0 :] for number in numbers]
        counts = [len(queries) for queries in asked]
        token = torch.arange(max(lengths), device=sequences.target.device)
        query = torch.arange(max(counts), device=sequences.target.device)
        first = torch.tensor(lengths, device=token.device) - torch.tensor(
            counts, device=token.device
        )
        mask = token <= (first[:, None] + query)[:, :, None]
        out = F.scaled_dot_product_attention(
            _padded(asked),
            _padded([sequences.keys[number] for number in numbers]),
            _padded([sequences.values[number] for number in numbers]),
            attn_mask=mask[:, None],
            enable_gqa=True,
        )
        return [rows[:, :n].transpose(0, 1) for rows, n in zip(out, counts, strict=True)]

    return attend


def _padded(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2)


def flex_attention(sequences: Sequences) -> Attend:
    """Attend by FlexAttention, compiled, sequences one behind the other under a mask of blocks."""
    if sequences.target.device != "cuda":
        raise AbsentError("it is compiled for a GPU; here it would take longer than all the rest")
    return flex_attention_by(
        sequences,
        torch.compile(torch.nn.attention.flex_attention.flex_attention, dynamic=True),
    )


def flex_attention_by(sequences: Sequences, run: Callable[..., torch.Tensor]) -> Attend:
    """Attend by FlexAttention, compiled or not."""

    def attend(numbers: Sequence[int], last: int | None) -> list[torch.Tensor]:
        lengths = [sequences.lengths[number] for number in numbers]
        asked = [sequences.queries[number][-last if last else 0 :] for number in numbers]
        counts, device = [len(queries) for queries in asked], sequences.target.device

        def owners(parts: list[int]) -> torch.Tensor:
            return torch.repeat_interleave(
                torch.arange(len(parts), device=device), torch.tensor(parts, device=device)
            )

        query_of, key_of = owners(counts), owners(lengths)
        # Where a query's own token stands among all keys.
        places = torch.cat(
            [
                torch.arange(end - count, end, device=device)
                for count, end in zip(counts, accumulate(lengths), strict=True)
            ]
        )

        def sees(
            _batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
        ) -> torch.Tensor:
            return (query_of[query] == key_of[key]) & (key <= places[query])

        mask = torch.nn.attention.flex_attention.create_block_mask(
            sees, None, None, sum(counts), sum(lengths), device=device
        )
        keys = [sequences.keys[number] for number in numbers]
        values = [sequences.values[number] for number in numbers]
        query, key, value = (
            torch.cat(part).transpose(0, 1)[None] for part in (asked, keys, values)
        )
        out = run(query, key, value, block_mask=mask, enable_gqa=True)
        return list(torch.split(out[0].transpose(0, 1), counts))

    return attend


def cpu_attention(sequences: Sequences) -> Attend:
    """Attend by vLLM's kernel for CPUs."""
    target, shape = sequences.target, sequences.shape
    if target.device != "cpu":
        raise AbsentError("a kernel for CPUs")
    own_kernel("cpu_attention_with_kv_cache")
    part = {
        name: vllm_part(name, "vllm._custom_ops")
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
        schedule = part["cpu_attn_get_scheduler_metadata"](
            num_reqs=len(call.lengths),
            num_heads=shape.heads,
            num_kv_heads=shape.kv_heads,
            head_dim=shape.head_size,
            seq_lens=call.lengths,
            dtype=target.dtype,
            query_start_loc=call.starts,
            causal=True,
            sliding_window_size=-1,
            isa=isa,
            enable_kv_split=True,
        )
        part["cpu_attention_with_kv_cache"](
            query=call.queries,
            key_cache=keys,
            value_cache=values,
            output=out,
            query_start_loc=call.starts,
            seq_lens=call.lengths,
            scale=call.scale,
            causal=True,
            alibi_slopes=None,
            sliding_window=-1,
            block_table=call.tables,
            softcap=0.0,
            scheduler_metadata=schedule,
            s_aux=None,
        )
        return out

    return paged(sequences, run)


KERNELS: dict[str, Callable[[Sequences], Attend]] = {
    "torch": torch_attention,
    "vllm cpu": cpu_attention,
    "vllm flash 2": flash_attention(2, 0),
    "vllm flash 3": flash_attention(3, 0),
    "vllm flash 3, uncut": flash_attention(3, 1),
    "vllm triton": triton_attention(cut=True),
    "vllm triton, uncut": triton_attention(cut=False),
    "flex": flex_attention,
}
"""Every kernel by name; last the one that compiles anew for many sizes."""

"""Attention of sequences: as whole prefills, as the tails of resumed ones, and as decode steps."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own pages name it

from refork.engines.describe import BLOCK_SIZES
from refork.engines.vllm.operations.comparing import Compared, Operation, Output, compared
from refork.engines.vllm.operations.cpu_attention import cpu_attention
from refork.engines.vllm.operations.gpu_attention import flash_attention, triton_attention
from refork.engines.vllm.operations.models import ModelShape
from refork.engines.vllm.operations.sequences import Attend, Sequences
from refork.engines.vllm.operations.target import Target
from refork.engines.vllm.operations.vllm_parts import AbsentError

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
        asked, device = sequences.asked(numbers, last), sequences.target.device
        lengths, counts = (
            torch.tensor(part, device=device) for part in (asked.lengths, asked.counts)
        )
        token = torch.arange(max(asked.lengths), device=device)
        query = torch.arange(max(asked.counts), device=device)
        first = lengths - counts
        mask = token <= (first[:, None] + query)[:, :, None]
        out = F.scaled_dot_product_attention(
            _padded(asked.queries),
            _padded([sequences.keys[number] for number in numbers]),
            _padded([sequences.values[number] for number in numbers]),
            attn_mask=mask[:, None],
            enable_gqa=True,
        )
        return [rows[:, :n].transpose(0, 1) for rows, n in zip(out, asked.counts, strict=True)]

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
        asked, device = sequences.asked(numbers, last), sequences.target.device
        lengths, counts = asked.lengths, asked.counts

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
            torch.cat(part).transpose(0, 1)[None] for part in (asked.queries, keys, values)
        )
        out = run(query, key, value, block_mask=mask, enable_gqa=True)
        return list(torch.split(out[0].transpose(0, 1), counts))

    return attend


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

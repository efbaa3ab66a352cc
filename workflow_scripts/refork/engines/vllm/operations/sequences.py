"""Sequences whose attention is probed: queries, keys and values, and the pages that hold them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch

from refork.engines.vllm.operations.models import ModelShape
from refork.engines.vllm.operations.target import Target

SHORTEST, LONGER_BY = 37, 13
"""Tokens of the first sequence, and how many more each next one has: no multiples of a page."""


@dataclass(frozen=True)
class Sequences:
    """Drawn queries, keys and values of sequences of many lengths."""

    shape: ModelShape
    target: Target
    count: int
    page: int  # tokens of a page of keys and values: a block of the cache

    @cached_property
    def lengths(self) -> list[int]:
        """Tokens of every sequence; the long ones are spread."""
        order = sorted(range(self.count), key=lambda number: number * 7919 % self.count)
        return [SHORTEST + LONGER_BY * number for number in order]

    @cached_property
    def queries(self) -> list[torch.Tensor]:
        """A (tokens, heads, head size) tensor a sequence."""
        return self._drawn(self.shape.heads, 1)

    @cached_property
    def keys(self) -> list[torch.Tensor]:
        """A (tokens, key heads, head size) tensor a sequence."""
        return self._drawn(self.shape.kv_heads, 2)

    @cached_property
    def values(self) -> list[torch.Tensor]:
        """A (tokens, key heads, head size) tensor a sequence."""
        return self._drawn(self.shape.kv_heads, 3)

    @cached_property
    def tables(self) -> torch.Tensor:
        """Numbers of every sequence's pages, scattered as in an engine that has run for a while."""
        most = self._pages(max(self.lengths))
        scattered = torch.randperm(self.count * most, generator=torch.Generator().manual_seed(4))
        return scattered.view(self.count, most).to(self.target.device, torch.int32)

    @cached_property
    def slots(self) -> torch.Tensor:
        """Slot of every token of all sequences, one behind the other."""
        slots = []
        for number, length in enumerate(self.lengths):
            token = torch.arange(length, device=self.target.device)
            page = self.tables[number].long()[token // self.page]
            slots.append(page * self.page + token % self.page)
        return torch.cat(slots)

    def asked(self, numbers: Sequence[int], last: int | None) -> "Asked":
        """Give some sequences, of each the queries of its last tokens (None: of all)."""
        queries = [self.queries[number][-last if last else 0 :] for number in numbers]
        lengths = [self.lengths[number] for number in numbers]
        return Asked(queries, [len(part) for part in queries], lengths)

    @property
    def pages(self) -> int:
        """Pages of all sequences together."""
        return self.tables.numel()

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def _drawn(self, heads: int, seed: int) -> list[torch.Tensor]:
        drawn = self.target.draw(sum(self.lengths), heads, self.shape.head_size, seed=seed)
        return list(torch.split(drawn, self.lengths))


@dataclass(frozen=True)
class Asked:
    """Sequences of one call; an element a sequence."""

    queries: list[torch.Tensor]  # (tokens, heads, head size)
    counts: list[int]  # queries
    lengths: list[int]  # keys


@dataclass(frozen=True)
class Call:
    """One call of a kernel over pages."""

    queries: torch.Tensor  # (tokens, heads, head size), one sequence behind the other
    starts: torch.Tensor  # of every sequence's queries, and the end
    most_queries: int
    lengths: torch.Tensor  # keys of every sequence
    longest: int
    tables: torch.Tensor  # pages of every sequence
    scale: float

    @property
    def of_flash(self) -> dict[str, Any]:
        """Arguments by the names of FlashAttention, which vLLM's Triton kernel took over."""
        return {
            "max_seqlen_q": self.most_queries,
            "cu_seqlens_q": self.starts,
            "max_seqlen_k": self.longest,
            "seqused_k": self.lengths,
            "softmax_scale": self.scale,
            "causal": True,
            "block_table": self.tables,
        }


Attend = Callable[[Sequence[int], int | None], list[torch.Tensor]]
"""Attention of sequences in one call: the last so many tokens of each (None: all)."""


def paged(sequences: Sequences, run: Callable[[Call], torch.Tensor]) -> Attend:
    """Make an attention of sequences out of a kernel over pages."""

    def attend(numbers: Sequence[int], last: int | None) -> list[torch.Tensor]:
        asked = sequences.asked(numbers, last)
        chosen = torch.tensor(numbers, device=sequences.target.device)
        out = run(
            Call(
                queries=torch.cat(asked.queries),
                starts=sequences.target.whole([0, *accumulate(asked.counts)]),
                most_queries=max(asked.counts),
                lengths=sequences.target.whole(asked.lengths),
                longest=max(asked.lengths),
                tables=sequences.tables[chosen],
                scale=float(sequences.shape.head_size) ** -0.5,
            )
        )
        return list(torch.split(out, asked.counts))

    return attend


def filled_pages(sequences: Sequences) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values as (pages, tokens, key heads, head size), each token in its slot."""
    shape = sequences.shape
    pages = []
    for parts in (sequences.keys, sequences.values):
        flat = parts[0].new_zeros(sequences.pages * sequences.page, shape.kv_heads, shape.head_size)
        flat[sequences.slots] = torch.cat(parts)
        pages.append(flat.view(-1, sequences.page, shape.kv_heads, shape.head_size))
    return pages[0], pages[1]

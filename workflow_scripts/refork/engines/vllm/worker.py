"""What runs inside vLLM's worker: our draws in place of its own, and what they leave behind.

vLLM imports this module by its name, in the process of each worker. To vLLM every request is
greedy: the token that a request shall give has the logit ∞.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from refork.engines.sampling import Draws, LogitsError, draw, log_probabilities
from refork.engines.vllm.orders import Order, Record

RECORDS: dict[int, Record] = {}
"""Of the batch group that is running, by the key of the request."""


@dataclass(frozen=True)
class Row:
    """A row of the batch."""

    order: Order
    output: list[int]  # vLLM's own, which grows
    record: Record


class DrawProcessor(LogitsProcessor):  # type: ignore[misc] # vLLM's classes are Any here
    """Draws the token of each row that has an order; rows without one are vLLM's."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        """Start without rows; the arguments are vLLM's."""
        self._rows: dict[int, Row] = {}

    def is_argmax_invariant(self) -> bool:
        """Say that it decides what greedy requests give."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the rows of the batch as they come, go and move."""
        process_dict_updates(self._rows, batch_update, _row)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Raise the logit of each row's token to ∞ in float32 logits [rows, vocabulary].

        Raises
        ------
        LogitsError
            The logits of a request are no numbers; its `row` is the key of the request.
        """
        forced: list[int] = []
        drawn: list[int] = []
        for place in sorted(self._rows):
            row = self._rows[place]
            (forced if len(row.output) < len(row.order.forced) else drawn).append(place)
        for places, settle in ((forced, self._force), (drawn, self._draw)):
            if not places:
                continue
            some = logits if places == list(range(len(logits))) else logits[places]
            try:
                tokens = settle([self._rows[place] for place in places], some)
            except LogitsError as error:
                raise LogitsError(self._rows[places[error.row]].order.key) from error
            logits[places, tokens] = math.inf
        return logits

    def _force(self, rows: Sequence[Row], logits: torch.Tensor) -> list[int]:
        """Look up the next forced token of each row."""
        tokens = [row.order.forced[len(row.output)] for row in rows]
        asked = torch.tensor(tokens, device=logits.device)
        found = log_probabilities(logits, asked[:, None])[:, 0].tolist()
        for row, token, logprob in zip(rows, tokens, found, strict=True):
            row.record.write(len(row.output), token, logprob)
        return tokens

    def _draw(self, rows: Sequence[Row], logits: torch.Tensor) -> list[int]:
        """Draw the next token of each row."""
        recorded = max(row.order.recorded for row in rows)
        drawn = draw(logits, _draws(rows, logits.device), recorded)
        for place, row in enumerate(rows):
            row.record.write(len(row.output), drawn.tokens[place], drawn.logprobs[place])
            count = row.order.recorded
            row.record.top_tokens[-1] = drawn.top_tokens[place][:count]
            row.record.top_logprobs[-1] = drawn.top_logprobs[place][:count]
        return drawn.tokens


class RecordKeeper:
    """Methods that vLLM adds to its worker (`worker_extension_cls`)."""

    vllm_config: Any  # of the worker

    def refork_take_records(self) -> dict[int, Record]:
        """Give what was written down since the last time."""
        taken = dict(RECORDS)
        RECORDS.clear()
        return taken

    def refork_attention_backends(self) -> list[str]:
        """Name the attention backends of the model's layers."""
        layers = self.vllm_config.compilation_config.static_forward_context.values()
        backends = [layer.get_attn_backend() for layer in layers if _attends(layer)]
        return sorted({backend.get_name() for backend in backends})


def _attends(layer: Any) -> bool:
    return hasattr(layer, "get_attn_backend")


def _row(params: SamplingParams, prompt: list[int] | None, output: list[int]) -> Row | None:
    """Make the row of a request that enters the batch."""
    order = Order.unpacked(params.extra_args)
    if order is None:
        return None
    return Row(order, output, RECORDS.setdefault(order.key, Record()))


def _draws(rows: Sequence[Row], device: torch.device) -> Draws:
    """Say how the rows are drawn."""

    def column(values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).to(device)

    return Draws(
        seeds=column([row.order.seed for row in rows], torch.int64),
        positions=column([row.order.position + len(row.output) for row in rows], torch.int64),
        temperature=column([row.order.temperature for row in rows], torch.float32),
        top_p=column([row.order.top_p for row in rows], torch.float32),
        top_k=column([row.order.top_k for row in rows], torch.int64),
    )

"""What runs inside vLLM's worker: our draws in place of its own, and what they leave behind.

vLLM imports this module by its name, in the process of each worker. To vLLM every request is
greedy: the token that a request shall give has the logit ∞.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from refork.engines.sampling import (
    DrawnArrays,
    Draws,
    LogitsError,
    draw_arrays,
    log_probabilities,
)
from refork.engines.vllm.instructions import Instructions, Record
from refork.engines.vllm.records import Written, unpacked

WRITTEN: list[Written] = []
"""What came out of the batch group that is running, in order."""


@dataclass(frozen=True)
class Row:
    """A row of the batch."""

    instructions: Instructions
    output: list[int]  # vLLM's own, which grows


class Batch:
    """The rows that have instructions, as arrays that stay until rows come, go or move."""

    def __init__(self, rows: Mapping[int, Row], device: torch.device) -> None:
        """Lay out rows, by their numbers in vLLM's batch."""
        self.numbers = np.array(sorted(rows), dtype=np.int64)
        self._rows = [rows[number] for number in self.numbers.tolist()]
        told = [row.instructions for row in self._rows]
        self.keys = np.array([one.key for one in told], dtype=np.int64)
        self.recorded = np.array([one.recorded for one in told], dtype=np.int64)
        self._first = np.array([one.position for one in told], dtype=np.int64)
        self._forced = np.array([len(one.forced) for one in told], dtype=np.int64)
        self._device = device
        self._seeds = self.on_device(np.array([one.seed for one in told], dtype=np.int64))
        self._temperature = self._column([one.temperature for one in told], torch.float32)
        self._top_p = self._column([one.top_p for one in told], torch.float32)
        self._top_k = self._column([one.top_k for one in told], torch.int64)
        self.numbers_on_device = self.on_device(self.numbers)

    def lengths(self) -> NDArray[np.int64]:
        """Count the tokens that came out of each row so far."""
        return np.array([len(row.output) for row in self._rows], dtype=np.int64)

    def is_forced(self, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each row whether its next token is forced."""
        return lengths < self._forced

    def forced(self, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look up the next forced token of some rows."""
        tokens = [self._rows[row].instructions.forced[lengths[row]] for row in rows.tolist()]
        return np.array(tokens, dtype=np.int64)

    def draws(self, rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> Draws:
        """Say how the next token of some rows is drawn."""
        draws = Draws(
            seeds=self._seeds,
            positions=self.on_device(self._first + lengths),
            temperature=self._temperature,
            top_p=self._top_p,
            top_k=self._top_k,
        )
        return draws if len(rows) == len(self.numbers) else draws.rows(self.on_device(rows))

    def on_device(self, numbers: NDArray[np.int64]) -> torch.Tensor:
        """Copy an array to the device."""
        return torch.from_numpy(numbers).to(self._device)

    def _column(self, values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).to(self._device)


class DrawProcessor(LogitsProcessor):  # type: ignore[misc] # vLLM's classes are Any here
    """Draws the token of each row that has instructions; rows without any are vLLM's."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        """Start without rows; the arguments are vLLM's."""
        self._rows: dict[int, Row] = {}
        self._batch: Batch | None = None  # None: not laid out since rows came, went or moved

    def is_argmax_invariant(self) -> bool:
        """Say that it decides what greedy requests give."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the rows of the batch as they come, go and move."""
        if process_dict_updates(self._rows, batch_update, _row):
            self._batch = None

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Raise the logit of each row's token to ∞ in float32 logits [rows, vocabulary].

        Raises
        ------
        LogitsError
            The logits of a request are no numbers; its `row` is the key of the request.
        """
        if not self._rows:
            return logits
        if self._batch is None:
            self._batch = Batch(self._rows, logits.device)
        batch, lengths = self._batch, self._batch.lengths()
        forced, tokens = batch.is_forced(lengths), np.empty(len(lengths), dtype=np.int64)
        for settle, chosen in ((_force, forced), (_draw, ~forced)):
            rows = np.flatnonzero(chosen)
            if not len(rows):
                continue
            numbers = batch.numbers[rows]
            whole = len(rows) == len(logits)
            try:
                given = settle(
                    batch, rows, lengths, logits if whole else logits[batch.on_device(numbers)]
                )
            except LogitsError as error:
                raise LogitsError(int(batch.keys[rows[error.row]])) from error
            tokens[rows] = given.tokens[:, 0]
            counts = np.where(forced[rows], 0, batch.recorded[rows])
            WRITTEN.append(Written(batch.keys[rows], lengths[rows], counts, given))
        logits[batch.numbers_on_device, batch.on_device(tokens)] = math.inf
        return logits


def _force(
    batch: Batch, rows: NDArray[np.int64], lengths: NDArray[np.int64], logits: torch.Tensor
) -> DrawnArrays:
    """Look up the next forced token of some rows, whose logits are given."""
    tokens = batch.forced(rows, lengths)[:, None]
    found = log_probabilities(logits, batch.on_device(tokens))
    return DrawnArrays(tokens, found.cpu().numpy())


def _draw(
    batch: Batch, rows: NDArray[np.int64], lengths: NDArray[np.int64], logits: torch.Tensor
) -> DrawnArrays:
    """Draw the next token of some rows, whose logits are given."""
    recorded = int(batch.recorded[rows].max())
    return draw_arrays(logits, batch.draws(rows, lengths), recorded)


class RecordKeeper:
    """Methods that vLLM adds to its worker (`worker_extension_cls`)."""

    vllm_config: Any  # of the worker

    def refork_take_records(self) -> dict[int, Record]:
        """Give what was written down since the last time."""
        taken = unpacked(WRITTEN)
        WRITTEN.clear()
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
    instructions = Instructions.unpacked(params.extra_args)
    return None if instructions is None else Row(instructions, output)

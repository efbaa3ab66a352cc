"""What the torch engine asks of a model: to feed sequences, and rows side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from refork.engines.torch.snapshots import StateKind


@dataclass(frozen=True)
class Fed:
    """A sequence that was fed from its first token on."""

    state: torch.Tensor  # [layers, 2, key heads, tokens, width], keys and values
    logits: torch.Tensor  # float32 [vocabulary], of the token behind the sequence
    logprobs: list[float]  # raw, of the tokens behind the prompt


class Rows(Protocol):
    """Rows that are decoded side by side, numbered from 0 without gaps."""

    def enter(self, state: torch.Tensor, tokens: int) -> None:
        """Add a row behind the others, from the first `tokens` tokens of a state.

        Rows that enter from the same tensor may share it by reference; nobody writes to it.
        """
        ...

    def step(self, tokens: list[int]) -> torch.Tensor:
        """Feed one token to every row; gives the logits of the next, float32 [rows, vocabulary]."""
        ...

    def state(self, row: int) -> torch.Tensor:
        """Copy a row's state [layers, 2, key heads, tokens, width]."""
        ...

    def drop(self, row: int) -> None:
        """Forget a row; the last row takes its place."""
        ...


class Decoder(Protocol):
    """A loaded model; the same calls give the same numbers, bit for bit."""

    kind: StateKind
    device: torch.device
    context_length: int
    vocabulary: int  # token ids that it can be fed
    end_tokens: frozenset[int]
    facts: Mapping[str, str]  # what goes into the fingerprint: path, kernels, attention
    invariant: bool  # whether a row's numbers depend on its own tokens alone

    def prefill(self, tokens: list[int], prompt_length: int) -> Fed:
        """Feed a whole sequence at once, by the prefill kernels, without padding."""
        ...

    def feed(self, tokens: list[int], prompt_length: int) -> Fed:
        """Feed a whole sequence by the decode kernels; bit-equal to feeding token by token.

        Raises
        ------
        EngineError
            Not invariant: the batch of each step would have to be known.
        """
        ...

    def rows(self, capacity: int) -> Rows:
        """Open an empty set of at most `capacity` rows."""
        ...

"""A decoder without a model: its logits are a hash of the tokens, its state the tokens."""

import hashlib
from collections.abc import Mapping

import numpy as np
import torch

from refork.engines.sampling import log_probabilities
from refork.engines.torch.decoder import Fed
from refork.engines.torch.snapshots import StateKind

VOCABULARY = 32
END = 31
POISON = 30
"""Behind this token there are no numbers."""


class ToyDecoder:
    """Notes every call: sequences that were prefilled and fed, rows as they stood at each step."""

    def __init__(self, invariant: bool = False) -> None:
        self.kind = StateKind("toy", "float32", layers=1, heads=1, width=1)
        self.device = torch.device("cpu")
        self.context_length, self.vocabulary = 1000, VOCABULARY
        self.end_tokens = frozenset({END})
        self.facts: Mapping[str, str] = {}
        self.invariant = invariant
        self.prefilled: list[list[int]] = []
        self.fed: list[list[int]] = []
        self.steps: list[list[list[int]]] = []  # all tokens of each row, the fed one included
        self.capacities: list[int] = []

    def prefill(self, tokens: list[int], prompt_length: int) -> Fed:
        """Note and feed a sequence."""
        self.prefilled.append(tokens)
        return _feed(tokens, prompt_length)

    def feed(self, tokens: list[int], prompt_length: int) -> Fed:
        """Note and feed a sequence."""
        assert self.invariant
        self.fed.append(tokens)
        return _feed(tokens, prompt_length)

    def rows(self, capacity: int) -> "ToyRows":
        """Open rows."""
        self.capacities.append(capacity)
        return ToyRows(self)


class ToyRows:
    """Rows of a toy decoder."""

    def __init__(self, decoder: ToyDecoder) -> None:
        self._decoder = decoder
        self._rows: list[list[int]] = []

    def enter(self, state: torch.Tensor, tokens: int) -> None:
        """Add a row."""
        assert tokens <= state.shape[3]
        self._rows.append(tokens_of(state)[:tokens])
        assert len(self._rows) <= self._decoder.capacities[-1]

    def step(self, tokens: list[int]) -> torch.Tensor:
        """Feed every row a token."""
        for row, token in zip(self._rows, tokens, strict=True):
            row.append(token)
        self._decoder.steps.append([list(row) for row in self._rows])
        return torch.stack([_logits(row) for row in self._rows])

    def state(self, row: int) -> torch.Tensor:
        """Copy a row's state."""
        return _state(self._rows[row])

    def drop(self, row: int) -> None:
        """Forget a row."""
        self._rows[row] = self._rows[-1]
        self._rows.pop()


def tokens_of(state: torch.Tensor) -> list[int]:
    """Read the tokens off a state."""
    tokens: list[int] = state[0, 0, 0, :, 0].int().tolist()
    return tokens


def _feed(tokens: list[int], prompt_length: int) -> Fed:
    logprobs = [
        float(log_probabilities(_logits(tokens[:place])[None], torch.tensor([[tokens[place]]])))
        for place in range(prompt_length, len(tokens))
    ]
    return Fed(_state(tokens), _logits(tokens), logprobs)


def _state(tokens: list[int]) -> torch.Tensor:
    return torch.tensor(tokens, dtype=torch.float32).expand(1, 2, 1, -1)[..., None].clone()


def _logits(tokens: list[int]) -> torch.Tensor:
    """Give logits of all tokens but the last two, which are never drawn."""
    digest = hashlib.blake2b(repr(tokens).encode(), digest_size=8).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "big"))
    logits = generator.standard_normal(VOCABULARY).astype(np.float32)
    logits[[POISON, END]] = np.nan if POISON in tokens else -1e9
    return torch.from_numpy(logits)

"""A decoder on a model's own forward and the DynamicCache of transformers."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from transformers import DynamicCache

from refork.engines.sampling import log_probabilities
from refork.engines.torch.decoder import Fed
from refork.engines.torch.dynamic.attention import GROUPED
from refork.engines.torch.dynamic.cache import RowCache
from refork.engines.torch.loading import Loaded
from refork.errors import EngineError

CLOSE = 0.05
"""Relative difference of two states that rounding can make."""
ALIKE = 0.5
"""Relative difference of two rows of logits that rounding can make."""
FAULTS = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
"""What a model raises that is not made to be fed like this."""


class DynamicDecoder:
    """Any causal model that keeps keys and values of one shape; see `decoder.Decoder`."""

    invariant = False

    def __init__(self, loaded: Loaded) -> None:
        """Take over a loaded model and hold a decode step against a prefill.

        Raises
        ------
        EngineError
            The model cannot be fed like this; the message says what was found.
        """
        self.model = loaded.model
        self.device = loaded.device
        self.context_length = loaded.context_length
        self.vocabulary, self.end_tokens = loaded.vocabulary, loaded.end_tokens
        if self.model.config._attn_implementation == "sdpa":
            self.model.set_attn_implementation(GROUPED)
        self._accepted = frozenset(inspect.signature(self.model.forward).parameters)
        try:
            self._empty = self.prefill([0], 1).state[:, :, :, :0]
            fault = self._fault(loaded.vocabulary)
        except FAULTS as error:
            fault = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        if fault is not None:
            raise EngineError(
                f"the architecture {type(self.model).__name__} cannot be run: {fault}. What runs "
                "is a causal decoder of transformers whose whole state is keys and values, of one "
                "shape in all layers"
            )
        layers, _, heads, _, width = self._empty.shape
        self.kind = loaded.kind(layers, heads, width)
        self.facts: Mapping[str, str] = {
            "path": "dynamic",
            "kernels": "stock",
            "attention": self.model.config._attn_implementation,
            "architecture": type(self.model).__name__,
        }

    def prefill(self, tokens: list[int], prompt_length: int) -> Fed:
        """Feed a whole sequence, one at a time and without padding."""
        cache: Any = DynamicCache()
        kept = len(tokens) - prompt_length + 1
        ids = torch.tensor([tokens], device=self.device)
        logits = self.forward(input_ids=ids, past_key_values=cache, logits_to_keep=kept)
        logits = logits[0, -kept:].float()
        behind = torch.tensor(tokens[prompt_length:], dtype=torch.int64, device=self.device)
        logprobs = log_probabilities(logits[:-1], behind[:, None])[:, 0]
        parts = [part for layer in cache.layers for part in (layer.keys, layer.values)]
        shapes = sorted({tuple(part.shape[1:]) for part in parts})
        if len(shapes) != 1:
            raise ValueError(f"its keys and values have the shapes {shapes}, not one")
        states = [torch.cat([layer.keys, layer.values]) for layer in cache.layers]
        return Fed(torch.stack(states), logits[-1].clone(), logprobs.tolist())

    def feed(self, tokens: list[int], prompt_length: int) -> Fed:
        """Refuse, for a step's numbers depend on the rows beside."""
        raise EngineError(
            f"{len(tokens)} tokens cannot be fed on their own: {type(self.model).__name__} runs by "
            "stock kernels, whose numbers depend on the batch"
        )

    def rows(self, capacity: int) -> "DynamicRows":
        """Open an empty set of at most `capacity` rows."""
        return DynamicRows(self, RowCache(capacity, self._empty))

    @torch.no_grad()
    def forward(self, **arguments: Any) -> torch.Tensor:
        """Run the model on those arguments that it knows; gives its logits."""
        known = {name: value for name, value in arguments.items() if name in self._accepted}
        logits: torch.Tensor = self.model(**known, use_cache=True).logits
        return logits

    def _fault(self, vocabulary: int) -> str | None:
        """Say why the model's states cannot be resumed."""
        one, other = (
            [0, *(token % vocabulary for token in range(first, first + 7))] for first in (1, 8)
        )
        whole = self.prefill(one, 1)
        if whole.state.shape[3] != len(one):
            return f"its states hold {whole.state.shape[3]} of {len(one)} tokens"
        first, beside = (fed.state[:, :, :, 0] for fed in (whole, self.prefill(other, 1)))
        if _difference(first, beside) > CLOSE:
            return "what it keeps of a token depends on the tokens behind it"
        rows = self.rows(1)
        rows.enter(whole.state, len(one) - 1)
        stepped, fed = (logits - logits.mean() for logits in (rows.step(one[-1:])[0], whole.logits))
        if _difference(stepped, fed) > ALIKE:
            return "a step from its keys and values gives other logits than the whole sequence"
        return None


class DynamicRows:
    """Rows in one padded cache; see `decoder.Rows`."""

    def __init__(self, decoder: DynamicDecoder, cache: RowCache) -> None:
        """Start without rows."""
        self._decoder, self._cache = decoder, cache
        self.enter, self.state, self.drop = cache.enter, cache.state, cache.drop

    def step(self, tokens: list[int]) -> torch.Tensor:
        """Feed one token to every row; gives the logits of the next, float32 [rows, vocabulary]."""
        step = self._cache.step()
        logits = self._decoder.forward(
            input_ids=torch.tensor(tokens, device=self._decoder.device)[:, None],
            past_key_values=step.cache,
            attention_mask=step.attention_mask,
            position_ids=step.position_ids,
            logits_to_keep=1,
        )
        return logits[:, -1].float()


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """Size of a difference, relative to what is differed from."""
    one, other = one.double(), other.double()
    return float((one - other).norm() / other.norm().clamp(min=1e-30))

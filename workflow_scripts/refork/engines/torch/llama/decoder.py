"""The fast path as the torch engine asks for it."""

import os
from collections.abc import Mapping, Sequence
from functools import partial

import torch

from refork.engines.sampling import log_probabilities
from refork.engines.tiles import TILE_ROWS
from refork.engines.torch.decoder import Fed
from refork.engines.torch.llama.architecture import Architecture
from refork.engines.torch.llama.cpu import CompiledAttention, CompiledElementwise
from refork.engines.torch.llama.forward import Attention, Elementwise, Network, Places
from refork.engines.torch.llama.memory import Memory, Prefix, Row
from refork.engines.torch.llama.plain import KEYS, BlockAttention, PlainElementwise
from refork.engines.torch.llama.rotary import Rotary
from refork.engines.torch.llama.rows import LlamaRows, MakeAttention
from refork.engines.torch.llama.stock import CausalAttention, OwnAttention, SharedAttention
from refork.engines.torch.llama.weights import take_weights
from refork.engines.torch.loading import Loaded
from refork.errors import EngineError

HEAD_ROWS = 256
"""Positions whose logits are held at once when a sequence is fed."""


class LlamaDecoder:
    """A decoder of the Llama family; `Decoder` of the torch engine.

    On the CPU compiled kernels run and rows hold their prefixes by reference; elsewhere torch's
    operations do and rows hold copies.
    """

    def __init__(
        self, loaded: Loaded, architecture: Architecture, kernels: str, compiled: bool | None = None
    ) -> None:
        """Take the weights out of a loaded model, which is empty afterwards.

        Parameters
        ----------
        loaded
            A model of this architecture.
        architecture
            As `read_architecture` gives it.
        kernels
            `stock` or `batch_invariant`.
        compiled
            Whether the compiled kernels run; by default they do on the CPU.
        """
        self.device, self.context_length = loaded.device, loaded.context_length
        self.vocabulary, self.end_tokens = loaded.vocabulary, loaded.end_tokens
        self.kind = loaded.kind(architecture.layers, architecture.key_heads, architecture.width)
        self.invariant = kernels == "batch_invariant"
        self._compiled = self.device.type == "cpu" if compiled is None else compiled
        self._architecture, self._dtype = architecture, loaded.dtype
        if self.invariant and self.device.type == "cuda":
            _ask_for_determinism()
        rotary = Rotary(loaded.model.model.rotary_emb, self.context_length, self.device)
        weights = take_weights(loaded.model, architecture)
        make_elementwise = CompiledElementwise if self._compiled else PlainElementwise
        elementwise: Elementwise = make_elementwise(architecture.epsilon)
        self._prefill_network = Network(weights, rotary, elementwise)
        decode_weights = weights.tiled() if self.invariant else weights
        self._decode_network = Network(decode_weights, rotary, elementwise)
        self._make_attention, attention = self._choose_attention()
        self.facts: Mapping[str, str] = {
            "path": "llama",
            "kernels": kernels,
            "attention": attention,
        }

    @torch.no_grad()
    def prefill(self, tokens: list[int], prompt_length: int) -> Fed:
        """Feed a whole sequence at once: one linear map for all rows, torch's causal attention."""
        state = self._new_state(len(tokens))
        places = self._places(0, len(tokens))
        normed = self._prefill_network.run(
            torch.tensor(tokens, device=self.device), CausalAttention(state, places)
        )
        pieces = torch.split(normed[prompt_length - 1 :], HEAD_ROWS)
        logits, logprobs = self._behind(self._prefill_network, pieces, tokens[prompt_length:])
        return Fed(state, logits, logprobs)

    @torch.no_grad()
    def feed(self, tokens: list[int], prompt_length: int) -> Fed:
        """Feed a whole sequence by the decode kernels, its positions as the rows of tiles.

        Raises
        ------
        EngineError
            Not invariant.
        """
        if not self.invariant:
            raise EngineError("stock kernels feed a sequence in no way that a batch would repeat")
        room = -(-len(tokens) // KEYS) * KEYS
        state = self._new_state(len(tokens) if self._compiled else room)
        pieces = []
        for first in range(0, len(tokens), TILE_ROWS):
            some = tokens[first : first + TILE_ROWS]
            padded = some if self._compiled else some + [0] * (TILE_ROWS - len(some))
            normed = self._decode_network.run(
                torch.tensor(padded, device=self.device), self._tile(state, first, len(padded))
            )
            wanted = normed[max(prompt_length - 1 - first, 0) : len(some)]
            pieces += [wanted] if len(wanted) else []
        logits, logprobs = self._behind(self._decode_network, pieces, tokens[prompt_length:])
        return Fed(state[:, :, :, : len(tokens)].contiguous(), logits, logprobs)

    def rows(self, capacity: int) -> LlamaRows:
        """Open an empty set of at most `capacity` rows."""
        kind = self.kind
        memory = Memory(kind.layers, kind.heads, kind.width, self._dtype, self.device)
        return LlamaRows(
            self._decode_network,
            memory,
            capacity,
            self._make_attention,
            sharing=self._compiled,
            padded=self.invariant and not self._compiled,
        )

    def _choose_attention(self) -> tuple[MakeAttention, str]:
        members = self._architecture.heads // self._architecture.key_heads
        if self.invariant:
            if self._compiled:
                return CompiledAttention, "compiled, by position"
            return _blocks, f"blocks of {KEYS} keys"
        if self._compiled:
            return partial(SharedAttention, members=members), "sdpa, prefixes shared"
        return OwnAttention, "sdpa"

    def _tile(self, state: torch.Tensor, first: int, count: int) -> Attention:
        """Attention of so many positions of one sequence, each of which sees those up to itself."""
        places, memory = self._places(first, count), state[:, :, None]
        if not self._compiled:
            return BlockAttention(memory, places, places.positions + 1)
        prefix = Prefix(state, state)
        rows = [Row(prefix, first + place + 1) for place in range(count)]
        return CompiledAttention(memory, places, rows, fed=False)

    def _places(self, first: int, count: int) -> Places:
        """Positions of one sequence, in the only row of its memory."""
        positions = torch.arange(first, first + count, device=self.device)
        return Places(positions, torch.zeros_like(positions), positions, first + count - 1)

    def _behind(
        self,
        network: Network,
        pieces: Sequence[torch.Tensor],
        known: list[int],
    ) -> tuple[torch.Tensor, list[float]]:
        """Give the logits behind the last row, and log-probabilities of the known tokens.

        `pieces` are rows of the normalised stream [rows, hidden], from the prompt's last one on.
        """
        logprobs: list[float] = []
        for piece in pieces:
            logits = network.logits(piece)
            behind = known[len(logprobs) : len(logprobs) + len(piece)]
            chosen = torch.tensor(behind, dtype=torch.int64, device=self.device)[:, None]
            logprobs += log_probabilities(logits[: len(behind)], chosen)[:, 0].tolist()
        return logits[-1].clone(), logprobs

    def _new_state(self, tokens: int) -> torch.Tensor:
        kind = self.kind
        shape = (kind.layers, 2, kind.heads, tokens, kind.width)
        return torch.zeros(shape, dtype=self._dtype, device=self.device)


def _blocks(memory: torch.Tensor, places: Places, rows: list[Row]) -> Attention:
    return BlockAttention(memory, places, places.columns + 1)


def _ask_for_determinism() -> None:
    """Have CUDA take kernels whose sums are in a fixed order; float32 without TF32."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False

"""The engine under test, on a model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from refork.engines import open_engine
from refork.engines.interface import Engine, EngineSettings
from refork.engines.torch.decoder import Decoder, Fed, Rows
from refork.engines.torch.engine import TorchEngine
from refork.engines.vllm.options import block_size

VLLM = (
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
    pytest.mark.filterwarnings("ignore:::vllm", "ignore:::torch"),
)
"""Marks of what runs vLLM, which warns of its own code and of the torch that it is made for."""
_KEPT: list[Engine] = []
"""Engines of vLLM, until the process ends: one that goes takes down what the others share."""
CLOSE = 1e-3
"""Most that a log-probability may differ in float32 when a state is made another way."""
RESUMED = ("snapshot", "decode_replay", "prefill")
SENTENCES = (
    "Tom has 4 red pens and 9 blue pens. How many pens does he have?",
    "The capital of France is Paris, and the capital of",
    "Water boils when",
)


@dataclass(frozen=True)
class Subject:
    """The engine under test, prompts for it, and what may be asked of its arithmetic."""

    settings: EngineSettings
    folder: Path
    prompts: list[list[int]]
    end_tokens: frozenset[int]
    fidelity: float  # bound of |Δ log-probability| when a state is made another way
    engine: Engine

    @property
    def states(self) -> tuple[str, ...]:
        """States that it can resume from."""
        return tuple(state for state in RESUMED if state != "snapshot" or self.keeps_snapshots)

    @property
    def keeps_snapshots(self) -> bool:
        """Whether it writes and reads snapshots; who does not refuses them in words."""
        return self.settings.kind != "vllm" or self.settings.vllm.snapshots

    def measures(self, state: str) -> bool:
        """Whether it can tell how far a state is from the recording.

        vLLM gives no log-probabilities of what it prefills.
        """
        return (self.settings.kind, state) != ("vllm", "prefill")

    def cached(self, request: Mapping[str, Any]) -> int:
        """Give the tokens of a prefix that it takes over.

        vLLM always feeds the last known token, and finds full blocks in its cache.
        """
        prefix, state = len(request["token_ids"]), request["state"]
        if self.settings.kind == "vllm":
            prefix -= request["forced_token"] is None
            if state == "decode_replay":
                block = block_size(self.settings)
                return prefix // block * block
        return prefix if state == "snapshot" else 0

    @property
    def invariant(self) -> bool:
        """Whether a request's numbers hang on its own tokens alone."""
        return self.settings.kernels == "batch_invariant"

    def assert_same(
        self,
        results: Sequence[Mapping[str, Any]],
        others: Sequence[Mapping[str, Any]],
        state: str = "fresh",
    ) -> None:
        """Assert that the same was drawn, from states made in the way that `state` says.

        Batch-invariant kernels give the same numbers bit for bit, but the prefill kernels are
        others. Else all tokens are the same in float32, their log-probabilities close, and most
        first tokens the same in bfloat16, for there the batch and the prefill change a first token
        here and there.
        """
        tokens, expected = ([row["token_ids"] for row in rows] for rows in (results, others))
        if self.invariant and state != "prefill":
            assert list(results) == list(others)
        elif self.settings.dtype == "float32":
            assert tokens == expected
            for name in ("logprobs", "top_logprobs"):
                given, wanted = ([row[name] for row in rows] for rows in (results, others))
                assert _flat(given) == pytest.approx(_flat(wanted), abs=CLOSE)
        else:
            pairs = list(zip(tokens, expected, strict=True))
            assert sum(one[:1] == other[:1] for one, other in pairs) >= 0.75 * len(pairs)

    def open(self, **changes: Any) -> Engine:
        """Open another engine on the same model."""
        return _open(replace(self.settings, **changes), self.folder)


def _flat(numbers: Any) -> list[float]:
    """Give the numbers of nested lists, one behind the other."""
    if not isinstance(numbers, list):
        return [numbers]
    return [number for part in numbers for number in _flat(part)]


def make_subject(kind: str, dtype: str, folder: Path, fidelity: float, **settings: Any) -> Subject:
    """Open an engine on a model folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [tokenizer(sentence).input_ids for sentence in SENTENCES]
    asked = {"device": "cpu", "threads": 1, "batch_rows": 64, **settings}
    made = EngineSettings(kind=kind, dtype=dtype, **asked)
    engine = _open(made, folder)
    ends = frozenset({tokenizer.eos_token_id, *_model_ends(folder)})
    return Subject(made, folder, prompts, ends, fidelity, engine)


def _model_ends(folder: Path) -> list[int]:
    """Read the tokens that end a rollout of the model; those of generation go before."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        ends = json.loads(path.read_text()).get("eos_token_id") if path.exists() else None
        if ends is not None:
            return ends if isinstance(ends, list) else [ends]
    return []


def _open(settings: EngineSettings, folder: Path) -> Engine:
    engine = open_engine(settings, folder)
    if settings.kind == "vllm":
        _KEPT.append(engine)
    return engine


class CountedDecoder:
    """A decoder that counts the tokens of each call."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.kind, self.device = decoder.kind, decoder.device
        self.context_length, self.end_tokens = decoder.context_length, decoder.end_tokens
        self.vocabulary = decoder.vocabulary
        self.facts, self.invariant = decoder.facts, decoder.invariant
        self.fed: list[int] = []

    def prefill(self, tokens: list[int], prompt_length: int) -> Fed:
        """Count, and prefill."""
        self.fed.append(len(tokens))
        return self.decoder.prefill(tokens, prompt_length)

    def feed(self, tokens: list[int], prompt_length: int) -> Fed:
        """Count, and feed."""
        self.fed.append(len(tokens))
        return self.decoder.feed(tokens, prompt_length)

    def rows(self, capacity: int) -> Rows:
        """Open rows whose steps are counted."""
        return CountedRows(self.decoder.rows(capacity), self.fed)


class CountedRows:
    """Rows that count the tokens of each step."""

    def __init__(self, rows: Rows, fed: list[int]) -> None:
        self._rows, self._fed = rows, fed
        self.enter, self.state, self.drop = rows.enter, rows.state, rows.drop

    def step(self, tokens: list[int]) -> torch.Tensor:
        """Count, and step."""
        self._fed.append(len(tokens))
        return self._rows.step(tokens)


@contextmanager
def counted_tokens(subject: Subject) -> Iterator[list[int]]:
    """Count the tokens that each call of the decoder is fed."""
    engine = subject.engine
    assert isinstance(engine, TorchEngine)
    counted = CountedDecoder(engine._decoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_decoder", counted)
        yield counted.fed

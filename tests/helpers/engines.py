"""The engine under test, on a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from refork.engines import open_engine
from refork.engines.interface import Engine, EngineSettings

SENTENCES = (
    "Tom has 4 red pens and 9 blue pens. How many pens does he have?",
    "The capital of France is Paris, and the capital of",
    "Water boils when",
)


@dataclass(frozen=True)
class Subject:
    """The engine under test, prompts for it, and what may be asked of its arithmetic."""

    kind: str
    dtype: str
    folder: Path
    prompts: list[list[int]]
    end_token: int
    fidelity: float  # bound of |Δ log-probability| when a state is made another way
    engine: Engine

    def assert_same(self, tokens: Sequence[list[int]], others: Sequence[list[int]]) -> None:
        """Assert that the same was drawn: all of it in float32, most first tokens in bfloat16.

        The batch and the prefill change what bfloat16 computes, and a first token here and there.
        """
        if self.dtype == "float32":
            assert tokens == others
        else:
            pairs = list(zip(tokens, others, strict=True))
            assert sum(one[:1] == other[:1] for one, other in pairs) >= 0.75 * len(pairs)

    def open(self, **changes: Any) -> Engine:
        """Open another engine on the same model."""
        return open_engine(replace(_settings(self.kind, self.dtype), **changes), self.folder)


def make_subject(kind: str, dtype: str, folder: Path, fidelity: float) -> Subject:
    """Open an engine on a model folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [tokenizer(sentence).input_ids for sentence in SENTENCES]
    engine = open_engine(_settings(kind, dtype), folder)
    return Subject(kind, dtype, folder, prompts, tokenizer.eos_token_id, fidelity, engine)


def _settings(kind: str, dtype: str) -> EngineSettings:
    return EngineSettings(kind=kind, device="cpu", dtype=dtype, threads=1, batch_rows=64)

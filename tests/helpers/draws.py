"""Draws by the definition, every token hashed and every probability sorted."""

from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray

from refork.engines import seeds
from refork.engines.sampling import Draws


def draws(rows: int, temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> Draws:
    """Draw every row in the same way, by seeds of its own."""
    return Draws(
        seeds=torch.arange(rows, dtype=torch.int64),
        positions=torch.full((rows,), 17),
        temperature=torch.full((rows,), temperature),
        top_p=torch.full((rows,), top_p),
        top_k=torch.full((rows,), top_k),
    )


def chosen(given: Draws, rows: list[int]) -> Draws:
    """Return how these rows are drawn, in this order."""
    return Draws(*(getattr(given, field.name)[rows] for field in fields(Draws)))


def logits(rows: int, vocabulary: int, spread: float = 3.0) -> torch.Tensor:
    """Return normal logits, the same for the same numbers."""
    generator = torch.Generator().manual_seed(vocabulary)
    return spread * torch.randn((rows, vocabulary), generator=generator)


def plain_log_probabilities(scores: torch.Tensor) -> NDArray[np.float64]:
    """Return the logarithm of the softmax in float64."""
    values = scores.double().numpy()
    shifted = values - values.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def plain_draws(scores: torch.Tensor, given: Draws) -> list[int]:
    """Draw one token a row."""
    return [_plain_draw(scores[row], chosen(given, [row])) for row in range(len(scores))]


def _plain_draw(scores: torch.Tensor, given: Draws) -> int:
    if given.temperature[0] == 0:
        return int(np.argmax(scores.numpy()))
    # In the engine's float32, so that tokens at the edge of top-p fall on the same side.
    scaled = (scores / given.temperature[0]).double().numpy()
    kept = np.full(len(scaled), True)
    top_k, top_p = int(given.top_k[0]), float(given.top_p[0])
    if top_k:
        kept = scaled >= np.sort(scaled)[::-1][min(top_k, len(scaled)) - 1]
    if top_p < 1:
        probabilities = np.where(kept, np.exp(scaled - scaled.max()), 0)
        probabilities /= probabilities.sum()
        order = np.argsort(-probabilities, kind="stable")
        before = np.cumsum(probabilities[order]) - probabilities[order]
        kept &= scaled >= scaled[order[np.sum(before < top_p) - 1]]
    seed = np.uint64(given.seeds[0].item() % 2**64)
    uniforms = seeds.uniform(seed, given.positions[0].item(), np.arange(len(scaled)))
    noise = -np.log(-np.log(uniforms))
    return int(np.argmax(np.where(kept, scaled + noise, -np.inf)))

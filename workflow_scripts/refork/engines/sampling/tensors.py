"""Draws on tensors of any device.

Most rows are settled by their most probable tokens: top-p leaves no others, or, for Gumbel noise of
32-bit numbers is bounded, no other could win. Only the rest are drawn from all tokens.
How a device adds up a row can depend on the number of rows: all of it is done on tiles of a fixed
number, so that a row's numbers depend on nothing else.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from refork.engines.sampling.draws import DrawnArrays, Draws, LogitsError
from refork.engines.seeds import GOLDEN, MULTIPLIERS, SHIFTS
from refork.engines.tiles import tiles

GUMBEL_MAX = -math.log(-math.log1p(-(2.0**-33)))
"""Largest noise: u = 1 − 2⁻³³."""
DRAWN_ROWS = 256
"""Rows of a tile, which a GPU draws in one go; constant, for it is part of what the numbers are."""
CANDIDATES = 128
"""Most probable tokens that are looked at first."""
SEARCHED_ROWS = 64
"""Rows of a tile of those that their candidates do not settle."""


@dataclass(frozen=True)
class Ranked:
    """The most probable tokens of each row, best first, the lowest id first among equals."""

    tokens: torch.Tensor  # int64 [rows, count]
    logits: torch.Tensor  # float32 [rows, count]


def uniform(seeds: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """`seeds.uniform` on tensors, equal bit for bit: int64 in, float64 out, with broadcasting."""
    golden = _signed(GOLDEN)
    stream = _mix(seeds + (positions + 1) * golden)
    word = _mix(stream + (tokens + 1) * golden)
    return (_shift(word, 32).double() + 0.5) / 2.0**32


def draw(logits: torch.Tensor, draws: Draws, recorded: int) -> DrawnArrays:
    """Draw one token a row; see `sampling.draw_arrays`."""
    log_sums = _log_sums(logits)
    parts = [
        _chosen(tile, draws.tile(number * DRAWN_ROWS, DRAWN_ROWS), recorded)
        for number, tile in enumerate(tiles(logits, DRAWN_ROWS))
    ]
    chosen = torch.cat(parts)[: len(logits)]
    # Bits of the log-sums and of the log-probabilities beside the tokens: one wait for the device.
    numbers = torch.cat([log_sums, logits.gather(-1, chosen) - log_sums], dim=-1)
    copied = torch.cat([chosen, numbers.view(torch.int32).long()], dim=-1).cpu().numpy()
    tokens, bits = np.split(copied, [chosen.shape[1]], axis=1)
    found = bits.astype(np.int32).view(np.float32)
    LogitsError.raise_if_any(~np.isfinite(found[:, 0]))
    return DrawnArrays(tokens, found[:, 1:])


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Give raw log-probabilities; see `sampling.log_probabilities`."""
    log_sums = _log_sums(logits)
    LogitsError.raise_if_any(~log_sums[:, 0].isfinite())
    return logits.gather(-1, tokens) - log_sums


def _chosen(tile: torch.Tensor, draws: Draws, recorded: int) -> torch.Tensor:
    """Give the drawn token of each row, and behind it the most probable ones."""
    ranked = rank(tile, max(CANDIDATES, recorded))
    drawn = _sample(tile, draws, ranked)
    return torch.cat([drawn[:, None], ranked.tokens[:, :recorded]], dim=-1)


def _log_sums(logits: torch.Tensor) -> torch.Tensor:
    """Give the log-sum-exp of each row [rows, 1], not finite where logits are no numbers."""
    parts = [tile.logsumexp(dim=-1, keepdim=True) for tile in tiles(logits, DRAWN_ROWS)]
    return torch.cat([*parts, logits.new_empty((0, 1))])[: len(logits)]


def gumbel(uniforms: torch.Tensor) -> torch.Tensor:
    """Turn uniform numbers into standard Gumbel noise."""
    return -torch.log(-torch.log(uniforms))


def rank(logits: torch.Tensor, count: int) -> Ranked:
    """Rank the `count` most probable tokens of each row of float32 logits [rows, vocabulary]."""
    values, tokens = logits.topk(min(count, logits.shape[1]), dim=-1)
    tokens, order = tokens.sort(dim=-1)
    values, order = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return Ranked(tokens.gather(-1, order), values)


def _sample(logits: torch.Tensor, draws: Draws, ranked: Ranked) -> torch.Tensor:
    """Draw one token a row of a tile, int64 [rows]; `ranked` are its most probable ones."""
    warm = draws.temperature > 0
    # Cold rows are drawn at temperature 1 and thrown away, so that a tile keeps its shape.
    drawn, settled = _among_candidates(logits, draws.warmed(), ranked)
    tokens = torch.where(warm, drawn, logits.argmax(dim=-1))
    unsettled = torch.nonzero(warm & ~settled)[:, 0]
    for number, tile in enumerate(tiles(logits[unsettled], SEARCHED_ROWS)):
        rows = unsettled[number * SEARCHED_ROWS :][:SEARCHED_ROWS]
        chosen = draws.rows(rows).tile(0, SEARCHED_ROWS).warmed()
        tokens[rows] = _among_all(tile, chosen)[: len(rows)]
    return tokens


def _among_candidates(
    logits: torch.Tensor, draws: Draws, ranked: Ranked
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from the candidates; say of each row whether no other token could have come."""
    edge, settled = _edge(logits, draws, ranked.logits)
    scaled = (ranked.logits / draws.temperature[:, None]).double()
    noise = gumbel(uniform(draws.seeds[:, None], draws.positions[:, None], ranked.tokens))
    best, index = (scaled + noise).masked_fill(scaled < edge, -math.inf).max(dim=-1, keepdim=True)
    free = (draws.top_k == 0) & (draws.top_p >= 1)
    # A score beyond which no other token can come settles a row from which nothing is left out.
    settled |= free & (best[:, 0] > scaled[:, -1] + GUMBEL_MAX)
    return ranked.tokens.gather(-1, index)[:, 0], settled


def _among_all(logits: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Draw from all tokens, int64 [rows]."""
    scaled = (logits / draws.temperature[:, None]).double()
    tokens = torch.arange(logits.shape[1], device=logits.device)
    scores = scaled + gumbel(uniform(draws.seeds[:, None], draws.positions[:, None], tokens))
    if ((draws.top_k > 0) | (draws.top_p < 1)).any():
        edge, _ = _edge(logits, draws, logits.sort(dim=-1, descending=True).values)
        scores = scores.masked_fill(scaled < edge, -math.inf)
    return scores.argmax(dim=-1)


def _edge(
    logits: torch.Tensor, draws: Draws, ranked: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the least logit, over temperature, that top-k, then top-p leave: float64 [rows, 1].

    top-p keeps the smallest set of most probable tokens, at temperature T and among what top-k
    left, whose probabilities reach p. Tokens as probable as the last one kept are kept too, so that
    the set does not hang on the order of equals.
    Says besides of each row whether `ranked`, its largest logits, best first, hold all that is
    left.
    """
    count = ranked.shape[1]
    scaled = (ranked / draws.temperature[:, None]).double()
    whole = (logits / draws.temperature[:, None]).logsumexp(dim=-1, keepdim=True)
    last = torch.where(draws.top_k > 0, draws.top_k, count).clamp(max=count) - 1
    best = scaled.gather(-1, last[:, None])  # the least of the k best
    allowed = scaled >= best

    probabilities = torch.exp(scaled - whole) * allowed
    mass = torch.where(draws.top_k > 0, probabilities.sum(dim=-1), 1.0)[:, None]
    before = probabilities.cumsum(dim=-1) - probabilities
    needed = allowed & (before < draws.top_p[:, None] * mass)
    # None is needed of a row of NaN, which is refused once it is on the host.
    nucleus = scaled.gather(-1, (needed.sum(dim=-1, keepdim=True) - 1).clamp(min=0))
    edge = torch.where(draws.top_p[:, None] < 1, nucleus, best)

    # Where the least of the ranked is left out, every token outside of them is left out too; and
    # top-p among the k best needs all of those.
    least = scaled[:, -1:]
    whole_set = (edge > least) & ((draws.top_k[:, None] == 0) | (best > least))
    return edge, whole_set[:, 0] | (count == logits.shape[1])


def _signed(word: int) -> int:
    """Give the int64 with the bits of a uint64."""
    return word - 2**64 if word >= 2**63 else word


def _shift(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift right without the sign."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _mix(words: torch.Tensor) -> torch.Tensor:
    """`seeds.mix` on int64 tensors, whose products wrap as the unsigned ones do."""
    words = (words ^ _shift(words, SHIFTS[0])) * _signed(MULTIPLIERS[0])
    words = (words ^ _shift(words, SHIFTS[1])) * _signed(MULTIPLIERS[1])
    return words ^ _shift(words, SHIFTS[2])

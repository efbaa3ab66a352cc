"""Draws on tensors of any device.

Gumbel noise of 32-bit numbers is bounded, so most tokens can never win; only those that can are
hashed. How a device adds up a row can depend on the number of rows: all of it is done on tiles of a
fixed number, so that a row's numbers depend on nothing else.
"""

import math
from dataclasses import dataclass

import torch

from refork.engines.sampling.draws import Drawn, Draws, LogitsError
from refork.engines.seeds import GOLDEN, MULTIPLIERS, SHIFTS
from refork.engines.tiles import TILE_ROWS, tiles

GUMBEL_MAX = -math.log(-math.log1p(-(2.0**-33)))
"""Largest noise: u = 1 − 2⁻³³."""
CANDIDATES = 128
"""Most probable tokens that are looked at first."""


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


def draw(logits: torch.Tensor, draws: Draws, recorded: int) -> Drawn:
    """Draw one token a row; see `sampling.draw`."""
    log_sums = _log_sums(logits)
    parts = [
        _chosen(tile, draws.tile(number * TILE_ROWS, TILE_ROWS), recorded)
        for number, tile in enumerate(tiles(logits))
    ]
    chosen = torch.cat(parts)[: len(logits)]
    rows, logprobs = chosen.tolist(), (logits.gather(-1, chosen) - log_sums).tolist()
    return Drawn(
        [row[0] for row in rows],
        [row[0] for row in logprobs],
        [row[1:] for row in rows],
        [row[1:] for row in logprobs],
    )


def log_probabilities(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Give raw log-probabilities; see `sampling.log_probabilities`."""
    return logits.gather(-1, tokens) - _log_sums(logits)


def _chosen(tile: torch.Tensor, draws: Draws, recorded: int) -> torch.Tensor:
    """Give the drawn token of each row, and behind it the most probable ones."""
    ranked = rank(tile, max(CANDIDATES, recorded))
    drawn = _sample(tile, draws, ranked)
    return torch.cat([drawn[:, None], ranked.tokens[:, :recorded]], dim=-1)


def _log_sums(logits: torch.Tensor) -> torch.Tensor:
    """Give the log-sum-exp of each row [rows, 1]; raises `LogitsError` where there is none."""
    parts = [tile.logsumexp(dim=-1, keepdim=True) for tile in tiles(logits)]
    log_sums = torch.cat([*parts, logits.new_empty((0, 1))])[: len(logits)]
    LogitsError.raise_if_any(~log_sums[:, 0].isfinite())
    return log_sums


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
    if not warm.any():
        return ranked.tokens[:, 0]
    # Cold rows are drawn at temperature 1 and thrown away, so that a tile keeps its shape.
    drawn = _sample_warm(logits, draws.warmed(), ranked, warm)
    return torch.where(warm, drawn, ranked.tokens[:, 0])


def _sample_warm(
    logits: torch.Tensor, draws: Draws, ranked: Ranked, wanted: torch.Tensor
) -> torch.Tensor:
    """Draw at temperatures above 0.

    Rows that their candidates do not settle look at more tokens, where they are `wanted`.
    """
    temperature = draws.temperature[:, None]
    allowed, settled = _restrict(logits, draws, ranked)
    noise = gumbel(uniform(draws.seeds[:, None], draws.positions[:, None], ranked.tokens))
    scores = ((ranked.logits / temperature).double() + noise).masked_fill(~allowed, -math.inf)
    best, place = scores.max(dim=-1, keepdim=True)
    tokens = ranked.tokens.gather(-1, place)[:, 0]

    free = (draws.top_k == 0) & (draws.top_p >= 1)
    # A score beyond which no other token can come settles a row from which nothing is left out.
    reach = (ranked.logits[:, -1] / draws.temperature).double() + GUMBEL_MAX
    settled = settled | (free & (best[:, 0] > reach))
    unsettled = wanted & ~settled
    everywhere = torch.nonzero(unsettled & free)[:, 0]
    if len(everywhere):
        scaled = logits[everywhere] / temperature[everywhere]
        tokens[everywhere] = _search(scaled, draws.rows(everywhere), best[everywhere])
    for row in torch.nonzero(unsettled & ~free)[:, 0].tolist():
        alone = logits[row : row + 1]
        wider = rank(alone, 16 * ranked.tokens.shape[1])
        tokens[row] = _sample_warm(alone, draws.tile(row, 1), wider, wanted[row : row + 1])[0]
    return tokens


def _restrict(
    logits: torch.Tensor, draws: Draws, ranked: Ranked
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the candidates that top-k, then top-p leave, and the rows where no others are left.

    top-p keeps the smallest set of most probable tokens, at temperature T and among what top-k
    left, whose probabilities reach p. Tokens as probable as the last one kept are kept too, so that
    the set does not hang on the order of equals.
    """
    count = ranked.tokens.shape[1]
    scaled = (ranked.logits / draws.temperature[:, None]).double()
    whole = (logits / draws.temperature[:, None]).logsumexp(dim=-1, keepdim=True)
    probabilities = torch.exp(scaled - whole)

    last = torch.where(draws.top_k > 0, draws.top_k, count).clamp(max=count) - 1
    allowed = scaled >= scaled.gather(-1, last[:, None])
    probabilities = probabilities * allowed
    mass = torch.where(draws.top_k > 0, probabilities.sum(dim=-1), 1.0)[:, None]

    before = probabilities.cumsum(dim=-1) - probabilities
    needed = allowed & (before < draws.top_p[:, None] * mass)
    edge = scaled.gather(-1, needed.sum(dim=-1, keepdim=True) - 1)
    restricted = torch.where(draws.top_p[:, None] < 1, scaled >= edge, allowed)
    # Where the least of the candidates is left out, every token outside of them is left out too;
    # and top-p among the k best needs all of those.
    settled = ~restricted[:, -1] & ((draws.top_k == 0) | ~allowed[:, -1])
    return restricted, settled | (count == logits.shape[1])


def _search(scaled: torch.Tensor, draws: Draws, best: torch.Tensor) -> torch.Tensor:
    """Draw from all tokens of unrestricted rows, int64 [rows].

    `best` [rows, 1] is a score that each has reached: only tokens that can reach it are hashed.
    """
    count, vocabulary = scaled.shape
    rows, tokens = torch.nonzero(scaled.double() + GUMBEL_MAX >= best, as_tuple=True)
    noise = gumbel(uniform(draws.seeds[rows], draws.positions[rows], tokens))
    scores = scaled[rows, tokens].double() + noise
    highest = best[:, 0].scatter_reduce(0, rows, scores, "amax")
    # The lowest id among equals.
    winners = torch.where(scores == highest[rows], tokens, vocabulary)
    return tokens.new_full((count,), vocabulary).scatter_reduce(0, rows, winners, "amin")


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

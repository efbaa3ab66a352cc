"""Decode rows side by side: replay what is known, then draw."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from refork.engines.requests import Request
from refork.engines.torch.cache import RowCache
from refork.engines.torch.model import TorchModel
from refork.engines.torch.sampling import CANDIDATES, Draws, log_probabilities, rank, sample


@dataclass(frozen=True)
class Start:
    """The state that a request starts from."""

    request: Request
    state: torch.Tensor  # [layers, 2, heads, tokens, head_dim]
    logits: torch.Tensor | None  # float32 [vocabulary] behind the state; None for a snapshot
    refed_logprobs: list[float]  # of the generated tokens that a prefill fed again
    cached: int
    recomputed: int


@dataclass
class Row:
    """A request on its way."""

    start: Start
    tokens: list[int]  # known, then drawn
    fed: int  # tokens that its state holds
    refed_logprobs: list[float]
    logprobs: list[float] = field(default_factory=list)
    top_tokens: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    finish_reason: str | None = None
    snapshot: torch.Tensor | None = None

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.start.request

    @property
    def drawn(self) -> list[int]:
        """Tokens behind the known ones."""
        return self.tokens[len(self.request.known) :]

    @property
    def fidelity(self) -> float | None:
        """Largest |Δ log-probability| of the re-fed tokens against the recording.

        0 where a state is taken over bit for bit and nothing is re-fed; None where nothing can be
        compared.
        """
        if self.request.state == "snapshot":
            return 0.0 if self.start.recomputed == 0 else None
        # What follows the recorded tokens is the forced one, which has no recording.
        pairs = zip(self.refed_logprobs, self.request.logprobs or (), strict=False)
        return max((abs(refed - recorded) for refed, recorded in pairs), default=None)


def decode(model: TorchModel, starts: Sequence[Start]) -> list[Row]:
    """Run the requests of one static batch to their ends.

    A finished row is dropped at once and none takes its turn: the numbers depend on nothing but the
    requests and their order, and passes that differ only in their state decode the same token
    beside the same rows.
    """
    cache = RowCache([start.state for start in starts])
    rows = [
        Row(start, list(start.request.known), start.state.shape[3], list(start.refed_logprobs))
        for start in starts
    ]
    live = list(rows)
    ready = [(row, row.start.logits) for row in live if row.start.logits is not None]
    if ready:
        _advance(model, [row for row, _ in ready], torch.stack([logits for _, logits in ready]))
        _drop_finished(live, cache)
    while live:
        logits = model.step([row.tokens[row.fed] for row in live], cache)
        for row in live:
            row.fed += 1
        _advance(model, live, logits)
        _drop_finished(live, cache)
    return rows


def _advance(model: TorchModel, rows: list[Row], logits: torch.Tensor) -> None:
    """Use the logits behind each row's state: compare a known token, or draw a new one."""
    replaying = [place for place, row in enumerate(rows) if row.fed < len(row.tokens)]
    if replaying:
        _compare([rows[place] for place in replaying], logits[replaying])
    for row in rows:
        if row.fed == len(row.tokens) and row.request.forced_token in model.end_tokens:
            row.finish_reason = "stop"
    drawing = [
        place
        for place, row in enumerate(rows)
        if row.fed == len(row.tokens) and row.finish_reason is None
    ]
    if drawing:
        some = logits if len(drawing) == len(rows) else logits[drawing]
        _draw(model, [rows[place] for place in drawing], some)


def _compare(rows: list[Row], logits: torch.Tensor) -> None:
    known = torch.tensor([row.tokens[row.fed] for row in rows], device=logits.device)
    logprobs = log_probabilities(logits, known[:, None])[:, 0].tolist()
    for row, logprob in zip(rows, logprobs, strict=True):
        row.refed_logprobs.append(logprob)


def _draw(model: TorchModel, rows: list[Row], logits: torch.Tensor) -> None:
    recorded = max(row.request.top_logprobs for row in rows)
    ranked = rank(logits, max(CANDIDATES, recorded))
    tokens = sample(logits, _draws(rows, logits.device), ranked)
    top = ranked.tokens[:, :recorded]
    chosen = torch.cat([tokens[:, None], top], dim=-1)
    logprobs, top_tokens = log_probabilities(logits, chosen).tolist(), top.tolist()
    for place, (row, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
        count = row.request.top_logprobs
        row.tokens.append(token)
        row.logprobs.append(logprobs[place][0])
        row.top_tokens.append(top_tokens[place][:count])
        row.top_logprobs.append(logprobs[place][1 : count + 1])
        if token in model.end_tokens:
            row.finish_reason = "stop"
        elif len(row.logprobs) == row.request.max_tokens:
            row.finish_reason = "length"


def _draws(rows: list[Row], device: torch.device) -> Draws:
    requests = [row.request for row in rows]

    def tensor(values: list[float] | list[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    seeds = [(request.seed + 2**63) % 2**64 - 2**63 for request in requests]
    return Draws(
        seeds=tensor(seeds, torch.int64),
        positions=tensor([len(row.tokens) for row in rows], torch.int64),
        temperature=tensor([request.temperature for request in requests], torch.float32),
        top_p=tensor([request.top_p for request in requests], torch.float32),
        top_k=tensor([request.top_k for request in requests], torch.int64),
    )


def _drop_finished(live: list[Row], cache: RowCache) -> None:
    for place in reversed(range(len(live))):
        row = live[place]
        if row.finish_reason is None:
            continue
        if row.request.keep_snapshot:
            row.snapshot = cache.state(place).cpu()
        cache.drop(place)
        live[place] = live[-1]
        live.pop()

"""Continuous batching: rows enter in their order as soon as there is a place, and leave at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from refork.engines.requests import Request
from refork.engines.sampling import Draws, LogitsError, draw, log_probabilities
from refork.engines.torch.decoder import Decoder
from refork.errors import EngineError


@dataclass(frozen=True)
class Entry:
    """The state that a row enters with."""

    state: torch.Tensor  # [layers, 2, key heads, tokens, width]; nobody writes to it
    tokens: int  # of the state that the row takes over
    logits: torch.Tensor | None = None  # float32 [vocabulary] behind them; None: a step gives them


@dataclass
class Row:
    """A sequence on its way: what is known of it is fed, then tokens are drawn."""

    request: Request  # how tokens are drawn
    tokens: list[int]  # known, then drawn
    limit: int  # tokens to draw at most
    kept_on: torch.device | None = None  # where the state at the end goes; None: nowhere
    fed: int = 0  # tokens that the state holds
    refed_logprobs: list[float] = field(default_factory=list)  # of known tokens, seen by steps
    logprobs: list[float] = field(default_factory=list)  # of drawn tokens
    top_tokens: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    finished: bool = False
    state: torch.Tensor | None = None  # at the end, where it is kept

    @property
    def drawn(self) -> list[int]:
        """Tokens behind the known ones."""
        return self.tokens[len(self.tokens) - len(self.logprobs) :]


class Schedule:
    """Decodes rows side by side, at most as many as there are places.

    Rows enter in the order in which they come. A finished row leaves at once, the last row takes
    its place, and the next one enters behind the others. What enters with logits holds its place
    for a step without being fed: its next token is drawn beside those of the rows that were fed
    their forced token in that step, and only then it enters. So passes whose requests differ only
    in their state decode the same token in the same place beside the same rows.

    All of it is a function of the rows and their order.
    """

    def __init__(self, decoder: Decoder, places: int) -> None:
        """Start without rows."""
        self._rows = decoder.rows(places)
        self._ends = decoder.end_tokens
        self._places = places
        self._live: list[Row] = []
        self._waiting: list[tuple[Row, Entry]] = []

    def run(self, arrivals: Iterator[tuple[Row, Entry]]) -> None:
        """Run rows to their ends; the next one is taken only when there is a place for it.

        Raises
        ------
        EngineError
            The model's logits are no numbers to draw from; the message names the question.
        """
        self._admit(arrivals)
        while self._live or self._waiting:
            self._advance()
            self._admit(arrivals)

    def _admit(self, arrivals: Iterator[tuple[Row, Entry]]) -> None:
        while len(self._live) + len(self._waiting) < self._places:
            arrival = next(arrivals, None)
            if arrival is None:
                return
            row, entry = arrival
            row.fed = entry.tokens
            if entry.logits is None:
                self._enter(row, entry)
            else:
                self._waiting.append(arrival)

    def _enter(self, row: Row, entry: Entry) -> None:
        self._rows.enter(entry.state, entry.tokens)
        self._live.append(row)

    def _advance(self) -> None:
        """Feed every row a token, use all logits, let in who waited, let go who has finished."""
        if self._live:
            logits = self._rows.step([row.tokens[row.fed] for row in self._live])
            for row in self._live:
                row.fed += 1
            self._use(self._live, logits)
        if self._waiting:
            ready = [entry.logits for _, entry in self._waiting if entry.logits is not None]
            self._use([row for row, _ in self._waiting], torch.stack(ready))
        for row, entry in self._waiting:
            self._enter(row, entry)
        self._waiting.clear()
        self._drop_finished()

    def _use(self, rows: list[Row], logits: torch.Tensor) -> None:
        """Use the logits behind each row's state: look up a known token, or draw a new one."""
        known = [place for place, row in enumerate(rows) if row.fed < len(row.tokens)]
        if known:
            _look_up([rows[place] for place in known], logits[known])
        for row in rows:
            row.finished = row.fed == len(row.tokens) and row.limit == 0
        drawing = [
            place
            for place, row in enumerate(rows)
            if row.fed == len(row.tokens) and not row.finished
        ]
        if drawing:
            some = logits if len(drawing) == len(rows) else logits[drawing]
            self._draw([rows[place] for place in drawing], some)

    def _draw(self, rows: list[Row], logits: torch.Tensor) -> None:
        recorded = max(row.request.top_logprobs for row in rows)
        with naming([row.request for row in rows]):
            drawn = draw(logits, _draws(rows, logits.device), recorded)
        for place, row in enumerate(rows):
            count = row.request.top_logprobs
            row.tokens.append(drawn.tokens[place])
            row.logprobs.append(drawn.logprobs[place])
            row.top_tokens.append(drawn.top_tokens[place][:count])
            row.top_logprobs.append(drawn.top_logprobs[place][:count])
            row.finished = row.tokens[-1] in self._ends or len(row.logprobs) == row.limit

    def _drop_finished(self) -> None:
        for place in reversed(range(len(self._live))):
            row = self._live[place]
            if not row.finished:
                continue
            if row.kept_on is not None:
                row.state = self._rows.state(place).to(row.kept_on)
            self._rows.drop(place)
            self._live[place] = self._live[-1]
            self._live.pop()


@contextmanager
def naming(requests: Sequence[Request]) -> Iterator[None]:
    """Turn a fault in the logits of one of these requests into an error that names it."""
    try:
        yield
    except LogitsError as error:
        request = requests[min(error.row, len(requests) - 1)]
        raise EngineError(
            f"question {request.question_id}, rollout {request.rollout}: {LogitsError.WORDS}"
        ) from error


def _look_up(rows: list[Row], logits: torch.Tensor) -> None:
    """Note the log-probability of the known token that each row is fed next."""
    known = torch.tensor([row.tokens[row.fed] for row in rows], device=logits.device)
    with naming([row.request for row in rows]):
        logprobs = log_probabilities(logits, known[:, None])[:, 0].tolist()
    for row, logprob in zip(rows, logprobs, strict=True):
        row.refed_logprobs.append(logprob)


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

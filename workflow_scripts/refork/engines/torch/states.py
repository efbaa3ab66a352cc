"""What every request of a batch group starts from."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import torch

from refork.engines.requests import Request
from refork.engines.torch.decoder import Decoder
from refork.engines.torch.schedule import Entry, Row, Schedule
from refork.engines.torch.snapshots import Snapshots
from refork.errors import EngineError

SPARE_BYTES = 2**29
"""Room for states that were fed at once, beyond what the group's snapshots would take."""


@dataclass(frozen=True)
class Resumption:
    """What a result says of the prefix that its request went on from; see `interface.Engine`."""

    cached: int  # tokens of its prefix that were taken over
    recomputed: int  # tokens of its prefix that were fed again
    fidelity: float | None  # largest |Δ log-probability| against the recording


@dataclass(frozen=True)
class Source:
    """A state that requests start from."""

    state: torch.Tensor  # [layers, 2, key heads, tokens, width]
    logits: torch.Tensor | None = None  # float32 [vocabulary], behind all of it
    logprobs: Sequence[float] = ()  # of its tokens behind the prompt, where they were fed here


class Shared:
    """Sources that are made at their first use and let go after their last.

    Where more than `most_bytes` would be held between uses, the one that was used longest ago is
    let go before its time, and made again.
    """

    def __init__(self, uses: Counter[Hashable], most_bytes: float = math.inf) -> None:
        """Say how often each key will be used."""
        self._left, self._most_bytes = uses, most_bytes
        self._held: dict[Hashable, Source] = {}

    def use(self, key: Hashable, make: Callable[[], Source]) -> Source:
        """Give the source of a key: one of its announced uses."""
        source = self._held.pop(key, None) or make()
        self._left[key] -= 1
        if self._left[key]:
            self._held[key] = source
            while sum(held.state.nbytes for held in self._held.values()) > self._most_bytes:
                del self._held[next(iter(self._held))]
        return source


class States:
    """Gives the requests of a group their states, in their order.

    - `fresh`: the prompt is fed, once for all requests that share it; by the decode kernels where
      their numbers depend on nothing else.
    - `snapshot`: keys and values of the original decode, read once a rollout to the longest prefix
      that is asked for.
    - `decode_replay`: the recorded tokens are fed by the decode kernels, once a rollout to its
      longest prefix; where the batch changes numbers, side by side and before all else.
    - `prefill`: prefix and forced token are fed by the prefill kernels, one sequence at a time,
      once for all requests that share them.

    Of a snapshot and of a replay, at least one token is left to be fed by a step, whose logits give
    the next one: the forced token, or the prefix's last.
    """

    def __init__(
        self, decoder: Decoder, group: Sequence[Request], snapshots: Snapshots | None, places: int
    ) -> None:
        """Count the uses of each state; replay what has to be replayed side by side.

        Raises
        ------
        EngineError
            Two requests go on from one rollout with different tokens.
        """
        self._decoder, self._snapshots = decoder, snapshots
        resumed = [request for request in group if _resumes(request)]
        self._longest = _longest(resumed)
        self._resumed = Shared(Counter(_rollout(request) for request in resumed))
        fed = [request for request in group if not _resumes(request)]
        self._fed = Shared(Counter(_sequence(request) for request in fed), self._most_bytes(fed))
        replays = [row for row in self._longest.values() if row.state == "decode_replay"]
        self._replayed: dict[str, Source] = {}
        if replays and not decoder.invariant:
            self._replayed = _replay(decoder, replays, places)

    @property
    def replayed_tokens(self) -> int:
        """Generated tokens of rollouts that are decoded once more."""
        replays = [row for row in self._longest.values() if row.state == "decode_replay"]
        return sum(len(row.token_ids) - row.prompt_length for row in replays)

    def start(self, request: Request) -> tuple[Entry, Resumption]:
        """Give a request its state, and say what that is.

        Raises
        ------
        EngineError
            Its rollout has no snapshot, or a shorter one.
        """
        length = len(request.token_ids)
        if _resumes(request):
            source = self._resumed.use(_rollout(request), lambda: self._resume(request))
            entry = Entry(source.state, _taken(request))
        else:
            source = self._fed.use(_sequence(request), lambda: self._feed(request))
            entry = Entry(source.state, source.state.shape[3], source.logits)
        cached = entry.tokens if request.state == "snapshot" else 0
        recomputed = 0 if request.state == "fresh" else length - cached
        return entry, Resumption(cached, recomputed, _fidelity(request, recomputed, source))

    def _resume(self, request: Request) -> Source:
        """Read or replay a rollout as far as the group goes on from it."""
        longest = self._longest[_rollout(request)]
        name = request.rollout_id
        if request.state == "snapshot":
            if self._snapshots is None:
                raise EngineError(f"rollout {name}: state snapshot needs a snapshot file")
            state = self._snapshots.load(name, _taken(longest))
            return Source(state.to(self._decoder.device))
        if name in self._replayed:
            return self._replayed.pop(name)
        fed = self._decoder.feed(longest.token_ids, longest.prompt_length)
        return Source(fed.state, logprobs=fed.logprobs)

    def _feed(self, request: Request) -> Source:
        """Feed all that is known of a request at once."""
        by_steps = self._decoder.invariant and request.state != "prefill"
        feed = self._decoder.feed if by_steps else self._decoder.prefill
        fed = feed(request.known, request.prompt_length)
        return Source(fed.state, fed.logits, fed.logprobs)

    def _most_bytes(self, fed: Iterable[Request]) -> int:
        """Bytes of fed states that may be held: what snapshots would take, and some."""
        kind = self._decoder.kind
        item: int = getattr(torch, kind.dtype).itemsize
        token = 2 * kind.layers * kind.heads * kind.width * item
        longest: Counter[str] = Counter()
        for request in fed:
            longest[request.rollout_id] = max(longest[request.rollout_id], len(request.known))
        return SPARE_BYTES + token * longest.total()


def _resumes(request: Request) -> bool:
    """Whether a request goes on from a state of its rollout, cut where it likes.

    A replay that goes on from behind its prompt, with nothing to feed, starts as the rollout did.
    """
    replays = request.state == "decode_replay" and len(request.known) > request.prompt_length
    return replays or request.state == "snapshot"


def _taken(request: Request) -> int:
    """Tokens of a rollout's state that a request takes over."""
    return min(len(request.token_ids), len(request.known) - 1)


def _rollout(request: Request) -> tuple[str, str]:
    return request.state, request.rollout_id


def _sequence(request: Request) -> tuple[bool, int, tuple[int, ...]]:
    return request.state == "prefill", request.prompt_length, tuple(request.known)


def _longest(resumed: Iterable[Request]) -> dict[tuple[str, str], Request]:
    """Find the longest prefix of each rollout, in order of first appearance."""
    longest: dict[tuple[str, str], Request] = {}
    for request in resumed:
        other = longest.setdefault(_rollout(request), request)
        # Of two that take over as much, one with a forced token knows one prefix token less.
        shorter, longer = sorted(
            (request, other), key=lambda one: (_taken(one), len(one.token_ids))
        )
        prefix = shorter.token_ids
        if longer.token_ids[: len(prefix)] != prefix or (
            shorter.prompt_length != longer.prompt_length
        ):
            raise EngineError(
                f"question {request.question_id}, rollout {request.rollout}: two requests go on "
                "from different tokens"
            )
        longest[_rollout(request)] = longer
    return longest


def _replay(decoder: Decoder, replays: Sequence[Request], places: int) -> dict[str, Source]:
    """Feed rollouts again by decode steps, side by side: prompts at once, then what was drawn."""
    prompts = Shared(Counter(tuple(_prompt(request)) for request in replays))

    def entry(request: Request) -> Entry:
        prompt = _prompt(request)

        def prefill() -> Source:
            fed = decoder.prefill(prompt, len(prompt))
            return Source(fed.state, fed.logits)

        source = prompts.use(tuple(prompt), prefill)
        return Entry(source.state, len(prompt), source.logits)

    rows = [Row(request, list(request.token_ids), 0, decoder.device) for request in replays]
    schedule = Schedule(decoder, min(places, len(rows)))
    schedule.run((row, entry(row.request)) for row in rows)
    return {
        row.request.rollout_id: Source(row.state, logprobs=row.refed_logprobs)
        for row in rows
        if row.state is not None
    }


def _prompt(request: Request) -> list[int]:
    return request.token_ids[: request.prompt_length]


def _fidelity(request: Request, recomputed: int, source: Source) -> float | None:
    """Largest |Δ log-probability| of re-fed tokens against the recording; None without one."""
    if request.state == "snapshot":
        return 0.0 if recomputed == 0 else None
    # What follows the recorded tokens, a forced token or a longer prefix, is not this request's.
    pairs = zip(source.logprobs, request.logprobs or (), strict=False)
    return max((abs(refed - recorded) for refed, recorded in pairs), default=None)

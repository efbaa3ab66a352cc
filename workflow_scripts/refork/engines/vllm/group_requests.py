"""From the requests of a batch group to the requests of vLLM that answer them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refork.engines.requests import Request
from refork.engines.vllm.instructions import Instructions, Transfer
from refork.errors import EngineError


@dataclass(frozen=True)
class VllmRequest:
    """One request of vLLM."""

    name: str  # of its question and rollout, for errors
    prompt: list[int]
    instructions: Instructions | None  # None: nothing is drawn or written down
    max_tokens: int  # forced ones included
    ends: frozenset[int]  # tokens behind which nothing is drawn
    salt: str  # only requests of one salt share cached blocks
    expected_cached: int | None = None  # tokens it must find cached; None: whatever it finds
    reads_cache: bool = True  # whether it looks for cached blocks at all
    transfer: Transfer | None = None  # None: it neither leaves nor takes a snapshot

    @property
    def key(self) -> int | None:
        """Key of its record; None where nothing is written down."""
        return None if self.instructions is None else self.instructions.key

    def blocks(self, block_size: int) -> int:
        """Count the blocks that it may write: all but those that it must find in the cache."""
        loads = self.transfer is not None and self.transfer.file is not None
        found = 0 if loads else (self.expected_cached or 0) // block_size
        return -(-(len(self.prompt) + self.max_tokens) // block_size) - found


@dataclass(frozen=True)
class Layout:
    """How prefixes meet the blocks of the cache."""

    block_size: int  # tokens
    tail: str  # prefill or decode: how what lies behind the last full block is fed

    def full(self, known: int) -> int:
        """Count the tokens of full blocks that vLLM takes over of a known sequence.

        The last token is always fed, for its logits give the next one.
        """
        return (known - 1) // self.block_size * self.block_size


class GroupRequests:
    """The requests of vLLM of one batch group.

    - `fresh`: prompt, then what is drawn. Rollouts of a question share the full blocks of their
      prompt.
    - `decode_replay`: first, each rollout is decoded again as far as the group goes on from it:
      its prompt is prefilled as it once was, its recorded tokens are forced, and one more token
      comes out so that the last one is fed too. Its requests then find all full blocks cached.
    - `prefill`: prefix and forced token are a prompt, with a salt of its own and no look at the
      cache, so that it neither finds nor leaves a block for others.
    - `snapshot`: prefix and forced token are a prompt, all of whose prefix is loaded; requests that
      go on from one rollout at one token share the full blocks.
    """

    def __init__(
        self,
        group: Sequence[Request],
        salt: str,
        layout: Layout,
        ends: frozenset[int],
        snapshots: Path | None = None,
    ) -> None:
        """Lay out a group under a salt that no other group has; snapshots are read from a file.

        Raises
        ------
        EngineError
            Two requests go on from one rollout with different tokens.
        """
        self.group, self.ends = group, ends
        self._layout, self._salt, self._snapshots = layout, salt, snapshots
        self._sources = _longest(request for request in group if request.state == "decode_replay")
        self._keys = {name: len(group) + number for number, name in enumerate(self._sources)}
        self.replays = [self._replay(request) for request in self._sources.values()]
        """The decodes that come first, in order of the first request that needs each."""
        self.requests = [self._answer(number, request) for number, request in enumerate(group)]
        """What answers the requests, in their order; the key of each is its number."""

    @property
    def replayed_tokens(self) -> int:
        """Generated tokens that the replays force once more."""
        told = [replay.instructions for replay in self.replays]
        return sum(len(one.forced) for one in told if one is not None)

    def replay_key(self, request: Request) -> int:
        """Give the key of the replay that a request goes on from."""
        return self._keys[request.rollout_id]

    def refresh(self, rollout: str) -> VllmRequest | None:
        """Give what finds all blocks of a replay, so that they are the last to be let go.

        It feeds one token. None where there is no full block.
        """
        source = self._sources[rollout]
        expected = len(source.token_ids) // self._layout.block_size * self._layout.block_size
        if not expected:
            return None
        prompt = [*source.token_ids[:expected], source.token_ids[-1]]
        return VllmRequest(rollout, prompt, None, 1, frozenset(), self._salt, expected)

    def _replay(self, request: Request) -> VllmRequest:
        prompt, forced = _parts(request.token_ids, request.prompt_length)
        instructions = _instructions(
            request, self.replay_key(request), len(prompt), forced, recorded=0
        )
        return VllmRequest(
            _name(request),
            prompt,
            instructions,
            len(forced) + 1,
            frozenset(),
            self._salt,
            expected_cached=None,
        )

    def _answer(self, key: int, request: Request) -> VllmRequest:
        known, salt, expected = request.known, self._salt, None
        fed = len(known)
        if request.state == "decode_replay":
            expected = self._layout.full(len(known))
            if self._layout.tail == "decode":
                # The prompt was prefilled in the original decode too.
                fed = max(expected + 1, request.prompt_length)
        if request.state == "prefill":
            salt, expected = f"{self._salt}/{key}", 0
        if request.state == "snapshot":
            # The last known token is always fed, for its logits give the next one.
            expected = min(len(request.token_ids), len(known) - 1)
            salt = f"{self._salt}/{expected} of {request.rollout_id}"
        prompt, forced = _parts(known, fed)
        over = request.forced_token in self.ends
        # vLLM gives one token at least; behind a forced end it is not used.
        limit = 1 if over else request.max_tokens
        return VllmRequest(
            name=_name(request),
            prompt=prompt,
            instructions=_instructions(request, key, fed, forced, recorded=request.top_logprobs),
            max_tokens=len(forced) + limit,
            ends=frozenset() if over else self.ends,
            salt=salt,
            expected_cached=expected,
            reads_cache=request.state != "prefill",
            transfer=self._transfer(request, expected),
        )

    def _transfer(self, request: Request, expected: int | None) -> Transfer | None:
        if request.state == "snapshot":
            return Transfer(
                request.rollout_id, request.keep_snapshot, str(self._snapshots), expected or 0
            )
        return Transfer(request.rollout_id, keeps=True) if request.keep_snapshot else None


def _parts(tokens: list[int], first: int) -> tuple[list[int], list[int]]:
    return tokens[:first], tokens[first:]


def _name(request: Request) -> str:
    return f"question {request.question_id}, rollout {request.rollout}"


def _instructions(
    request: Request, key: int, position: int, forced: list[int], *, recorded: int
) -> Instructions:
    return Instructions(
        key=key,
        position=position,
        forced=forced,
        seed=(request.seed + 2**63) % 2**64 - 2**63,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        recorded=recorded,
    )


def _longest(replayed: Iterable[Request]) -> Mapping[str, Request]:
    """Find the longest prefix of each rollout, in order of first appearance."""
    longest: dict[str, Request] = {}
    for request in replayed:
        other = longest.setdefault(request.rollout_id, request)
        shorter, longer = sorted((other, request), key=lambda one: len(one.token_ids))
        prefix = shorter.token_ids
        if longer.token_ids[: len(prefix)] != prefix or (
            shorter.prompt_length != longer.prompt_length
        ):
            raise EngineError(f"{_name(request)}: two requests go on from different tokens")
        longest[request.rollout_id] = longer
    return longest

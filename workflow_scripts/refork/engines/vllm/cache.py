"""Room in the key-value cache, so that memory never decides what runs beside what."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from refork.engines.vllm.group_requests import GroupRequests, VllmRequest
from refork.errors import EngineError


@dataclass(frozen=True)
class CacheSize:
    """The key-value cache, and what runs side by side in it."""

    blocks: int
    block_size: int  # tokens
    rows: int
    filler_rows: int


class Room:
    """How a batch group fits the cache.

    vLLM lets go of cached blocks silently, those first that were freed or found longest ago. So the
    cache must hold all replays and twice what can run side by side; and each time that requests for
    half of that have entered, the replays that are still needed are found once more. Then no block
    of them is let go.
    """

    def __init__(self, size: CacheSize, asked: GroupRequests) -> None:
        """Measure a group.

        Raises
        ------
        EngineError
            It may not fit: with the numbers, and what to change.
        """
        self._asked, self._block_size = asked, size.block_size
        answers = [one.blocks(size.block_size) for one in asked.requests]
        replays = [one.blocks(size.block_size) for one in asked.replays]
        longest = max([*answers, *replays], default=0)
        self._once = longest * max(min(size.rows, len(answers)), size.filler_rows)
        self._longest = longest
        needed = sum(replays) + 2 * self._once
        if size.filler_rows:
            turns = -(-len(replays) // size.rows)
            needed += turns * size.filler_rows * longest
        else:
            needed = min(needed, sum(replays) + sum(answers))
        if needed > size.blocks:
            raise EngineError(
                f"the key-value cache has {size.blocks} blocks of {size.block_size} tokens, but "
                f"this batch group may need {needed}: {sum(replays)} for {len(replays)} rollouts "
                f"and {longest} for each of {max(size.rows, size.filler_rows)} rows, twice; lower "
                "engine.batch_rows or the number of tokens, make batch groups smaller, or raise "
                "engine.vllm.cache_gib"
            )

    @property
    def filler(self) -> VllmRequest:
        """What fills a row: as long as the longest request, so that few follow one another."""
        length = max(1, self._longest) * self._block_size
        return VllmRequest(
            "a filler", [0], None, length - 1, frozenset(), "filler", reads_cache=False
        )

    def requests(self, fillers: Callable[[], int]) -> Iterator[VllmRequest]:
        """Give what answers the requests, in order, and between it what keeps replays cached.

        `fillers` counts the fillers that have entered so far.
        """
        last = {
            request.rollout_id: number
            for number, request in enumerate(self._asked.group)
            if request.state == "decode_replay"
        }
        entered, filled = 0, fillers()
        for number, request in enumerate(self._asked.requests):
            entered += request.blocks(self._block_size)
            if entered + (fillers() - filled) * self._longest > self._once:
                entered, filled = request.blocks(self._block_size), fillers()
                needed = (self._asked.refresh(name) for name in last if last[name] >= number)
                yield from (refresh for refresh in needed if refresh is not None)
            yield request

"""From requests to the requests of vLLM."""

from pathlib import Path
from typing import Any

import pytest

from helpers.vllm_groups import BLOCK, END, asked, request
from refork.engines.vllm.instructions import Transfer
from refork.errors import EngineError


def test_a_rollout_is_replayed_to_its_longest_prefix_in_order_of_appearance() -> None:
    laid = asked(request(6, rollout=1), request(5), request(9, rollout=1))
    first, second = laid.replays
    assert first.prompt == [0, 1, 2]
    assert first.instructions is not None
    assert first.instructions.forced == [3, 4, 5, 6, 7, 8]
    assert first.instructions.position == 3
    assert first.max_tokens == 7  # one more, so that the last token is fed
    assert first.ends == frozenset()
    assert second.max_tokens == 3
    assert laid.replayed_tokens == 6 + 2
    assert (
        laid.replay_key(laid.group[0]) == laid.replay_key(laid.group[2]) == first.instructions.key
    )
    assert {first.salt, second.salt} == {one.salt for one in laid.requests} == {"group 0"}


@pytest.mark.parametrize(
    ("tokens", "forced", "expected"),
    [(8, 50, 8), (7, 50, 4), (8, None, 4), (9, None, 8), (3, 50, 0)],
)
def test_all_full_blocks_but_the_last_token_are_found(
    tokens: int, forced: int | None, expected: int
) -> None:
    (one,) = asked(request(tokens, forced_token=forced)).requests
    assert one.expected_cached == expected
    assert one.prompt == [*range(tokens), *([] if forced is None else [forced])]
    assert one.instructions is not None
    assert (one.instructions.forced, one.max_tokens) == ([], 7)
    assert one.instructions.position == len(one.prompt)
    assert one.ends == frozenset({END})
    assert one.instructions.seed == -1  # of uint64, in two's complement


def test_a_decoded_tail_begins_one_token_behind_the_last_full_block() -> None:
    (one,) = asked(request(11), tail="decode").requests
    assert one.expected_cached == 8
    assert one.prompt == list(range(9))
    assert one.instructions is not None
    assert one.instructions.forced == [9, 10, 50]
    assert asked(request(11), tail="decode").replayed_tokens == 8
    assert one.instructions.position == 9
    assert one.max_tokens == 3 + 7
    assert one.ends == frozenset({END})


def test_a_decoded_tail_begins_behind_the_prompt() -> None:
    (one,) = asked(request(11, prompt=10), tail="decode").requests
    assert one.expected_cached == 8
    assert one.prompt == list(range(10))
    (short,) = asked(request(3), tail="decode").requests
    assert short.prompt == [0, 1, 2]
    assert short.instructions is not None
    assert short.instructions.forced == [50]


@pytest.mark.parametrize(("forced", "held"), [(50, 10), (None, 9)])
def test_a_snapshot_holds_all_but_the_last_token(forced: int | None, held: int) -> None:
    given: dict[str, Any] = {"state": "snapshot", "forced_token": forced}
    laid = asked(request(10, **given), request(6, **given), snapshots=Path("states"))
    whole, short = laid.requests
    assert laid.replays == []
    assert whole.prompt == [*range(10), *([] if forced is None else [forced])]
    assert whole.expected_cached == held
    assert whole.transfer == Transfer("bees/0", keeps=False, file="states", tokens=held)
    assert whole.blocks(BLOCK) == 5  # none of them is in the cache before
    assert whole.salt != short.salt


def test_a_rollout_that_leaves_a_state_says_so() -> None:
    keeping, other = asked(request(5, keep_snapshot=True), request(5)).requests
    assert keeping.transfer == Transfer("bees/0", keeps=True)
    assert keeping.transfer is not None
    packed = keeping.transfer.packed()["kv_transfer_params"]
    assert Transfer.unpacked(packed) == keeping.transfer
    assert other.transfer is None
    assert Transfer.unpacked(None) is None


def test_a_refed_prefix_shares_nothing() -> None:
    replayed, one, other = asked(
        request(9), request(9, state="prefill"), request(9, state="prefill"), tail="decode"
    ).requests
    assert len({replayed.salt, one.salt, other.salt}) == 3
    assert (one.reads_cache, one.expected_cached) == (False, 0)
    assert one.prompt == [*range(9), 50]
    assert replayed.reads_cache


def test_a_forced_end_gives_one_token_that_is_not_used() -> None:
    (one,) = asked(request(9, forced_token=END)).requests
    assert one.max_tokens == 1
    assert one.ends == frozenset()


@pytest.mark.parametrize("change", [{"token_ids": [0, 1, 2, 3, 77]}, {"prompt_length": 2}])
def test_rollouts_that_differ_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="question bees, rollout 0: two requests go on from"):
        asked(request(9), request(5, **change))


def test_a_refresh_finds_all_full_blocks_of_a_rollout() -> None:
    laid = asked(request(9), request(3, rollout=1))
    one = laid.refresh("bees/0")
    assert one is not None
    assert (one.expected_cached, len(one.prompt), one.max_tokens) == (8, 9, 1)
    assert one.instructions is None
    assert laid.refresh("bees/1") is None

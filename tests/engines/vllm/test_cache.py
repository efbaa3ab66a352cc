"""Room in the cache."""

import re

import pytest

from helpers.vllm_groups import BLOCK, asked, request
from refork.engines.vllm.cache import CacheSize, Room
from refork.engines.vllm.group_requests import GroupRequests, VllmRequest
from refork.errors import EngineError


def room(laid: GroupRequests, blocks: int = 1000, rows: int = 2, filler_rows: int = 0) -> Room:
    """Measure a group."""
    return Room(CacheSize(blocks, BLOCK, rows, filler_rows), laid)


def entries(measured: Room, fillers: int = 0) -> list[VllmRequest]:
    """Return what is run, where so many fillers enter before each request."""
    entered = iter(range(0, 10**6, fillers or 1))
    return list(measured.requests(lambda: next(entered) if fillers else 0))


# A replay of three blocks; requests that find two blocks and write three more.
NINE = request(9)


@pytest.mark.parametrize(
    ("requests", "rows", "filler_rows", "needed"),
    [
        (1, 2, 0, 3 + 3),
        (2, 2, 0, 3 + 2 * 3),
        (9, 2, 0, 3 + 2 * 2 * 3),  # twice the two that run side by side
        (9, 20, 0, 3 + 9 * 3),
        (1, 2, 4, 3 + 2 * 4 * 3 + 4 * 3),  # fillers beside the replay, too
    ],
)
def test_a_group_that_may_not_fit_is_refused_with_the_numbers(
    requests: int, rows: int, filler_rows: int, needed: int
) -> None:
    laid = asked(*[NINE] * requests)
    room(laid, needed, rows, filler_rows)
    words = f"has {needed - 1} blocks of 4 tokens, but this batch group may need {needed}: 3 for 1"
    with pytest.raises(EngineError, match=re.escape(words)):
        room(laid, needed - 1, rows, filler_rows)


def test_an_empty_group_needs_nothing() -> None:
    assert entries(room(asked(), blocks=0)) == []


def test_replays_are_found_again_before_they_could_be_let_go() -> None:
    late = request(9, rollout=1)
    laid = asked(NINE, NINE, NINE, late, late)
    given = entries(room(laid))
    names = [(one.name, one.instructions is None) for one in given]
    # Six blocks enter at a time; by the third request both rollouts are still needed.
    once = [("question bees, rollout 0", False), ("question bees, rollout 1", False)]
    assert names == [
        *[once[0]] * 2,
        ("bees/0", True),
        ("bees/1", True),
        once[0],
        once[1],
        ("bees/1", True),
        once[1],
    ]
    assert [one for one in given if one.instructions is not None] == laid.requests


def test_a_group_that_fits_at_once_is_not_interrupted() -> None:
    laid = asked(NINE, NINE)
    assert entries(room(laid)) == laid.requests


def test_fillers_count_among_what_enters() -> None:
    laid = asked(*[NINE] * 3)
    without, beside = (
        [one.instructions is None for one in entries(room(laid, rows=9, filler_rows=4), fillers)]
        for fillers in (0, 2)
    )
    assert not any(without)
    assert any(beside)


def test_a_filler_is_as_long_as_the_longest_request() -> None:
    laid = asked(NINE)
    filler = room(laid).filler
    assert filler.blocks(BLOCK) == 3
    assert not filler.reads_cache
    assert filler.salt not in {one.salt for one in [*laid.requests, *laid.replays]}

"""What a batch changes is found, and what it does not change is not."""

from collections.abc import Sequence

import pytest
import torch

from refork.engines.vllm.operations.comparing import (
    CALLS,
    Compared,
    Operation,
    Output,
    compared,
    sizes,
    spread,
    ways,
)

ITEMS = 20
VALUES = torch.arange(ITEMS * 3, dtype=torch.float32).view(ITEMS, 3)


def taken(numbers: Sequence[int]) -> torch.Tensor:
    return VALUES[torch.tensor(numbers)]


def by_size(numbers: Sequence[int]) -> torch.Tensor:
    return taken(numbers) + (0.5 if len(numbers) <= 4 else 0)


def by_place(numbers: Sequence[int]) -> torch.Tensor:
    return taken(numbers) + torch.arange(len(numbers))[:, None]


def by_list(numbers: Sequence[int]) -> list[torch.Tensor]:
    return [by_size(numbers)[place, : 1 + number % 3] for place, number in enumerate(numbers)]


def found(compute: object) -> dict[str, Compared]:
    assert callable(compute)
    return dict(ways(Operation("one", "a", "rows", ITEMS, compute)))


def test_an_operation_that_is_the_same_in_any_company() -> None:
    same = found(taken)
    assert list(same) == ["again", "order", "1", "2", "4", "8", "16"]
    assert all(way.equal == way.items and way.largest == 0 for way in same.values())


@pytest.mark.parametrize("compute", [by_size, by_list])
def test_an_operation_that_depends_on_the_number_of_rows(compute: object) -> None:
    differing = {way: one for way, one in found(compute).items() if one.equal < one.items}
    assert list(differing) == ["1", "2", "4"]
    assert {(one.equal, one.largest) for one in differing.values()} == {(0, 0.5)}


def test_an_operation_that_depends_on_the_place() -> None:
    way = found(by_place)
    assert way["again"].equal == ITEMS
    assert way["order"].equal < ITEMS
    assert way["8"].equal == 8  # the first eight stand where they stood
    assert way["8"].largest == 8


def test_one_number_of_many_is_enough() -> None:
    changed = VALUES.clone()
    changed[3, 2] += 2**-18
    assert compared(VALUES, range(ITEMS), changed) == Compared(ITEMS, ITEMS - 1, 2**-18)
    parts: Output = list(VALUES)
    assert compared(parts, range(ITEMS), list(changed)) == Compared(ITEMS, ITEMS - 1, 2**-18)


def test_calls_are_spread_from_first_to_last() -> None:
    assert sizes(256) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert sizes(1) == []
    assert spread(20, 8) == [range(8), range(8, 16)]
    many = spread(256, 1)
    assert len(many) == CALLS
    assert (many[0], many[-1]) == (range(1), range(255, 256))

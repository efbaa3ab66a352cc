"""Records out of the arrays of steps."""

import numpy as np

from refork.engines.sampling import DrawnArrays
from refork.engines.vllm.records import Written, unpacked


def written(
    keys: list[int], numbers: list[int], recorded: list[int], tokens: list[list[int]]
) -> Written:
    """Return a step in which the log-probability of a token is a 128th of it, below 0."""
    columns = np.array(tokens, dtype=np.int64)
    drawn = DrawnArrays(columns, (-columns / 128).astype(np.float32))
    return Written(np.array(keys), np.array(numbers), np.array(recorded), drawn)


def test_tokens_go_to_their_requests_in_their_order() -> None:
    steps = [
        written([7, 3], [0, 0], [0, 0], [[10], [20]]),
        written([3, 7], [1, 1], [1, 2], [[21, 22, 23], [11, 12, 13]]),
    ]
    records = unpacked(steps)
    assert {*records} == {3, 7}
    assert records[7].tokens == [10, 11]
    assert records[7].logprobs == [-10 / 128, -11 / 128]
    assert records[7].top_tokens == [[], [12, 13]]
    assert records[3].top_tokens == [[], [22]]
    assert records[3].top_logprobs == [[], [-22 / 128]]


def test_of_tokens_of_one_number_the_last_counts() -> None:
    steps = [written([5], [0], [0], [[token]]) for token in (1, 2, 3)]
    assert unpacked(steps)[5].tokens == [3]


def test_nothing_written_is_nothing_recorded() -> None:
    assert unpacked([]) == {}

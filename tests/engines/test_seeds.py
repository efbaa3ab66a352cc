"""Seeds of requests, and the random numbers drawn from them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from refork.engines.seeds import mix, request_seed, uniform

WORDS = st.integers(0, 2**64 - 1)


def test_request_seeds_are_pinned() -> None:
    assert request_seed(0, "q1", 0, 0, 0) == 18350355875080590972
    assert request_seed(7, "a/b", 3, 120, 2, arm="alt", pass_seed=5) == 12319213352357828417


def test_every_part_of_the_key_changes_the_seed() -> None:
    seeds = [
        request_seed(0, "q", 1, 2, 3),
        request_seed(1, "q", 1, 2, 3),
        request_seed(0, "r", 1, 2, 3),
        request_seed(0, "q", 2, 2, 3),
        request_seed(0, "q", 1, 3, 3),
        request_seed(0, "q", 1, 2, 4),
        request_seed(0, "q", 1, 2, 3, arm="alt"),
        request_seed(0, "q", 1, 2, 3, pass_seed=0),
        request_seed(0, "q", 12, 3, 3),
        request_seed(0, "q,1", 2, 3, 3),
    ]
    assert len(set(seeds)) == len(seeds)


def test_splitmix64_reference_values() -> None:
    # The first three outputs of the published C code for the seed 1234567.
    golden = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + k * golden) % 2**64 for k in (1, 2, 3)], dtype=np.uint64)
    assert mix(states).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(WORDS, st.integers(0, 2**20), st.integers(0, 2**18))
def test_uniform_is_strictly_inside_and_a_function_of_its_key(
    seed: int, position: int, token: int
) -> None:
    number = uniform(np.uint64(seed), position, token)
    assert number.shape == ()
    assert 0.0 < number < 1.0
    seeds = np.full(3, seed, dtype=np.uint64)
    assert np.all(uniform(seeds, position, token) == number)


def test_uniform_broadcasts_seeds_against_tokens() -> None:
    seeds = np.arange(4, dtype=np.uint64)[:, None]
    table = uniform(seeds, 9, np.arange(50))
    assert table.shape == (4, 50)
    assert table[2, 17] == uniform(np.uint64(2), 9, 17)


def test_uniform_looks_uniform_along_every_axis() -> None:
    axes = [
        uniform(np.arange(100_000, dtype=np.uint64), 5, 7),
        uniform(np.uint64(3), np.arange(100_000), 7),
        uniform(np.uint64(3), 5, np.arange(100_000)),
    ]
    for numbers in axes:
        counts = np.histogram(numbers, bins=100, range=(0, 1))[0]
        chi_square = np.sum((counts - 1000.0) ** 2 / 1000.0)
        assert chi_square < 149.0  # the .999 quantile at 99 degrees of freedom is 148.2
        lagged = np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
        assert abs(lagged) < 4 / np.sqrt(numbers.size)

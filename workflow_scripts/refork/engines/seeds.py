"""Seeds of requests, and the counter-based random numbers that every engine draws from.

A random number depends on nothing but (seed, absolute position, token id). So a resumed rollout
draws what the original drew, passes and arms share their random numbers, and no batch changes them.
"""

import hashlib
import json

import numpy as np
from numpy.typing import ArrayLike, NDArray

GOLDEN = 0x9E3779B97F4A7C15
"""Increment of SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195)."""
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
"""Finaliser of SplitMix64, variant 13 of Stafford's mixers."""


def request_seed(
    study_seed: int,
    question_id: str,
    rollout: int,
    position: int,
    draw: int,
    *,
    arm: str | None = None,
    pass_seed: int | None = None,
) -> int:
    """Seed of one request, in [0, 2^64).

    Parameters
    ----------
    study_seed, question_id, rollout
        The study and the base rollout.
    position, draw
        Absolute position of the forced token and number of the draw; both 0 for the base rollout.
    arm
        Only where the arms draw independent random numbers (`seeds: independent`).
    pass_seed
        A pass's own seed; None where passes share their random numbers.
    """
    key = [study_seed, question_id, rollout, position, draw, arm, pass_seed]
    canonical = json.dumps(key, separators=(",", ":")).encode("ascii")
    return int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "little")


def mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finaliser of SplitMix64: a bijection of the 64-bit words, elementwise."""
    first, second = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
    state = (state ^ (state >> np.uint64(SHIFTS[0]))) * first
    state = (state ^ (state >> np.uint64(SHIFTS[1]))) * second
    return state ^ (state >> np.uint64(SHIFTS[2]))


def uniform(seed: ArrayLike, position: ArrayLike, token: ArrayLike) -> NDArray[np.float64]:
    """Uniform number of (seed, absolute position, token id), elementwise with broadcasting.

    Each (seed, position) starts a SplitMix64 stream whose element number `token` is returned:
    u = (h + ½) / 2³² with h the upper 32 bits of the word, so 0 < u < 1 and log u is finite.
    """
    golden = np.uint64(GOLDEN)
    seeds, positions, tokens = (
        np.atleast_1d(np.asarray(part, dtype=np.uint64)) for part in (seed, position, token)
    )
    one = np.uint64(1)
    stream = mix(seeds + (positions + one) * golden)
    word = mix(stream + (tokens + one) * golden)
    number = ((word >> np.uint64(32)).astype(np.float64) + 0.5) / 2.0**32
    return number.reshape(np.broadcast_shapes(np.shape(seed), np.shape(position), np.shape(token)))

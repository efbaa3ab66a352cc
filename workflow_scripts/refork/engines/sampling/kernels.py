"""Compiled kernels that draw one row at a time.

Nothing about a row depends on the other rows or on their number. A row is cut into blocks whose
largest logits are known, so that most blocks are passed over. Gumbel noise of 32-bit numbers is
bounded, so most tokens can never win; only those that can are looked at closely.

All kernels stand in this file, for compiled code is kept until its own file changes.
"""

import math
from collections import namedtuple
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from refork.engines.seeds import GOLDEN, MULTIPLIERS, SHIFTS

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]

BLOCK = 64  # logits of a block
PART = 1024  # terms that are added up in float32 before the sum goes on in float64
REACH = 2.0  # how far below the most probable token the first look goes, in nats
GUMBEL_MAX = -math.log(-math.log1p(-(2.0**-33))) + 1e-9  # noise of u = 1 − 2⁻³³, rounded up

_ONE, _GOLDEN = np.uint64(1), np.uint64(GOLDEN)
_FIRST, _SECOND = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
_SHIFTS = tuple(np.uint64(shift) for shift in SHIFTS)
_UPPER, _WORD = np.uint64(32), np.uint64(2**32 - 1)
_WORDS = np.float32(1.0001 * 2.0**32)  # a little more than float32 rounds off

_LOWEST = np.float32(-87.0)  # e^x is a normal float32 above it
_LOG2_E = np.float32(math.log2(math.e))
_ROUND = np.float32(1.5 * 2**23)  # added to a float32, it leaves an integer in the low bits
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C0, _C1, _C2, _C3, _C4, _C5 = (
    *(np.float32(0.5), np.float32(1.6666665459e-1), np.float32(4.1665795894e-2)),
    *(np.float32(8.3334519073e-3), np.float32(1.3981999507e-3), np.float32(1.9875691500e-4)),
)
_EXPONENT, _MANTISSA = np.int32(0x4B400000 - 127), np.int32(23)
_SIGN, _NUMBER = np.int32(31), np.int32(0x7FFFFFFF)

# One row's logits, the largest of each block, and the temperature
Row = namedtuple("Row", ("logits", "peaks", "temperature"))
# Room for logit/T and tokens of a whole vocabulary
Found = namedtuple("Found", ("values", "tokens"))

_compiled = partial(numba.njit, cache=True, nogil=True, error_model="numpy")
_elementwise = _compiled(fastmath={"contract"})
# Adds up in an order of its own, which is always the same.
_sum = _compiled(fastmath={"contract", "reassoc"})


@_elementwise
def _exp(x: Any) -> Any:
    """Give e^x of a float32 at or below 0, to 2 units in the last place; 0 below −87.

    Coefficients of `expf` in the Cephes library (Moshier 1989).
    """
    rounded = x * _LOG2_E + _ROUND
    whole = rounded - _ROUND
    rest = x - whole * _LN2_HIGH - whole * _LN2_LOW
    value = ((((_C5 * rest + _C4) * rest + _C3) * rest + _C2) * rest + _C1) * rest + _C0
    value = value * rest * rest + rest + np.float32(1)
    exponent = np.float32(rounded).view(np.int32) - _EXPONENT
    power = np.int32(exponent << _MANTISSA).view(np.float32)
    return np.float32(0) if x < _LOWEST else value * power


@_elementwise
def _mix(word: Any) -> Any:
    """`seeds.mix` of one word."""
    word = (word ^ (word >> _SHIFTS[0])) * _FIRST
    word = (word ^ (word >> _SHIFTS[1])) * _SECOND
    return word ^ (word >> _SHIFTS[2])


@_elementwise
def _hash(stream: Any, token: int) -> Any:
    """Upper 32 bits of the word of a token in the stream of (seed, position)."""
    return _mix(stream + (np.uint64(token) + _ONE) * _GOLDEN) >> _UPPER


@_elementwise
def _noise(stream: Any, token: int) -> float:
    """Gumbel noise of `seeds.uniform`."""
    uniform = (np.float64(_hash(stream, token)) + 0.5) / 2.0**32
    return -math.log(-math.log(uniform))


@_elementwise
def _ordered(bits: Any) -> Any:
    """Turn the bits of a float32 into an integer of the same order, or back."""
    return np.int32(bits ^ ((bits >> _SIGN) & _NUMBER))


@_elementwise
def _largest(bits: Any) -> Any:
    """Largest of float32 numbers given by their bits; integers compare fast."""
    largest = np.int32(-(2**31))
    for offset in range(len(bits)):
        largest = max(largest, _ordered(bits[offset]))
    return np.int32(_ordered(largest)).view(np.float32)


@_sum
def _sum_exp(row: Any, temperature: Any, top: Any) -> float:
    """Σ exp(logit/T − top), of which no term is above 1."""
    total = 0.0
    for first in range(0, len(row), PART):
        part, sum_of_part = row[first : first + PART], np.float32(0)
        for offset in range(len(part)):
            sum_of_part = np.float32(sum_of_part + _exp(part[offset] / temperature - top))
        total += np.float64(sum_of_part)
    return total


@_elementwise
def summarise(logits: Floats, peaks: Floats, log_sums: NDArray[np.float64]) -> None:
    """Write the largest logit of each block [rows, blocks], and the log-sum-exp of each row.

    It is NaN where a logit is NaN or +∞, or all are −∞.
    """
    for number in range(len(logits)):
        bits = logits[number].view(np.int32)
        for block in range(peaks.shape[1]):
            peaks[number, block] = _largest(bits[block * BLOCK : (block + 1) * BLOCK])
        top = _largest(peaks[number].view(np.int32))
        total = _sum_exp(logits[number], np.float32(1), top)
        log_sums[number] = np.float64(top) + math.log(total)


@_elementwise
def _collect(row: Any, threshold: Any, found: Any) -> int:
    """Find each logit/T that reaches the threshold, and its token, in order of tokens."""
    count = 0
    for block in range(len(row.peaks)):
        if row.peaks[block] / row.temperature < threshold:
            continue
        first = block * BLOCK
        part = row.logits[first : first + BLOCK]
        for offset in range(len(part)):
            value = part[offset] / row.temperature
            if value >= threshold:
                found.values[count] = value
                found.tokens[count] = first + offset
                count += 1
    return count


@_elementwise
def _kth(values: Any, k: int) -> Any:
    """Give the k-th largest value."""
    return np.partition(values, len(values) - k)[len(values) - k]


@_elementwise
def _at_least(peaks: Any, count: int) -> Any:
    """Give a logit that at least `count` logits of the row reach."""
    return _kth(peaks, count) if count <= len(peaks) else np.float32(-np.inf)


@_elementwise
def _record(logits: Any, peaks: Any, found: Any, best: Any) -> None:
    """Write the most probable tokens, best first, the lowest id first among equals."""
    raw = Row(logits, peaks, np.float32(1))
    for number in range(_collect(raw, _at_least(peaks, len(best)), found)):
        rank = min(number, len(best))
        while rank > 0 and logits[best[rank - 1]] < found.values[number]:
            if rank < len(best):
                best[rank] = best[rank - 1]
            rank -= 1
        if rank < len(best):
            best[rank] = found.tokens[number]


@_elementwise
def _mass(values: Any, top: Any) -> float:
    """Σ exp(value − top), to the last digits."""
    return float(np.exp(values.astype(np.float64) - top).sum())


@_elementwise
def _nucleus(values: Any, top: Any, needed: float) -> Any:
    """Give the least of the most probable values whose mass reaches what is needed."""
    ordered = np.sort(values)[::-1]
    edge, mass = ordered[0], 0.0
    for value in ordered:
        if mass >= needed:
            break
        edge = value
        mass += math.exp(np.float64(value) - np.float64(top))
    return edge


@_elementwise
def _edge(row: Any, top: Any, top_p: Any, top_k: int, found: Any) -> Any:
    """Give the least logit/T that top-k, then top-p leave; `top` is the largest.

    top-p keeps the smallest set of most probable tokens, at temperature T and among what top-k
    left, whose probabilities reach p. Tokens as probable as the last one kept are kept too, so that
    the set does not hang on the order of equals.
    """
    edge = np.float32(-np.inf)
    limited = 0 < top_k < len(row.logits)
    if limited:
        raw = Row(row.logits, row.peaks, np.float32(1))
        values = found.values[: _collect(raw, _at_least(row.peaks, top_k), found)]
        edge = _kth(values, top_k) / row.temperature
    if top_p >= 1:
        return edge
    if limited:
        values = found.values[: _collect(row, edge, found)]
        return _nucleus(values, top, top_p * _mass(values, top))
    needed = top_p * _sum_exp(row.logits, row.temperature, top)
    reach = np.float32(REACH)
    while True:
        values = found.values[: _collect(row, top - reach, found)]
        if reach > -_LOWEST or _mass(values, top) >= needed:
            return _nucleus(values, top, needed)
        reach *= np.float32(2)


@_elementwise
def _contenders(part: Any, first: int, temperature: Any, best: float, stream: Any) -> int:
    """Count the tokens of a block that may reach a score, and some that just do not.

    With v = 1 − u, the noise is at most −log v: a token wins only where v ≤ exp(logit/T − best).
    """
    bar = np.float32(best - 1e-7 * abs(best) - 1e-6)  # rounded down
    count = 0
    for offset in range(len(part)):
        above = np.float32(np.uint32(_WORD - _hash(stream, first + offset)))
        chance = _exp(min(part[offset] / temperature - bar, np.float32(0)))
        count += above <= chance * _WORDS
    return count


@_elementwise
def _pick(row: Any, top: Any, edge: Any, stream: Any, found: Any) -> int:
    """Draw from the tokens whose logit/T reaches the edge."""
    near = max(edge, top - np.float32(REACH))
    best, winner = -np.inf, -1
    for number in range(_collect(row, near, found)):
        score = np.float64(found.values[number]) + _noise(stream, found.tokens[number])
        if score > best:
            best, winner = score, found.tokens[number]
    if near == edge:
        return winner
    for block in range(len(row.peaks)):
        peak = row.peaks[block] / row.temperature
        if peak < edge or np.float64(peak) + GUMBEL_MAX < best:
            continue
        first = block * BLOCK
        part = row.logits[first : first + BLOCK]
        if not _contenders(part, first, row.temperature, best, stream):
            continue
        for offset in range(len(part)):
            value = part[offset] / row.temperature
            score = np.float64(value) + _noise(stream, first + offset)
            if value >= edge and (score > best or (score == best and first + offset < winner)):
                best, winner = score, first + offset
    return winner


@_elementwise
def _greedy(logits: Any, peaks: Any, top: Any) -> int:
    """Give the lowest of the most probable tokens."""
    block = 0
    while peaks[block] != top:
        block += 1
    token = block * BLOCK
    while logits[token] != top:
        token += 1
    return token


@_elementwise
def pick(logits: Floats, peaks: Floats, draws: Any, drawn: Tokens, best: Tokens) -> None:
    """Write a drawn token [rows] and the most probable tokens [rows, recorded].

    `draws` is `Draws` as arrays, seeds without a sign.
    """
    found = Found(np.empty(logits.shape[1], np.float32), np.empty(logits.shape[1], np.int64))
    for number in range(len(logits)):
        if best.shape[1]:
            _record(logits[number], peaks[number], found, best[number])
        top = _largest(peaks[number].view(np.int32))
        row = Row(logits[number], peaks[number], draws.temperature[number])
        if row.temperature == 0:
            drawn[number] = _greedy(row.logits, row.peaks, top)
            continue
        top = top / row.temperature
        edge = _edge(row, top, draws.top_p[number], draws.top_k[number], found)
        step = np.uint64(draws.positions[number]) + _ONE
        drawn[number] = _pick(row, top, edge, _mix(draws.seeds[number] + step * _GOLDEN), found)

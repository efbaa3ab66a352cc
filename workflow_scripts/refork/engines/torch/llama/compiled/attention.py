"""Attention of one token a row over a prefix, which rows may share, and the row's own tokens.

A score is a sum over the width of a head in its order, an output one over positions in theirs, each
term added by a fused product; the sum of a softmax goes by lanes of the absolute position. So
where a prefix ends, who shares it and what stands beside a row changes nothing.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.np.numpy_support import carray

from refork.engines.torch.llama.compiled.compiler import Array, compiled
from refork.engines.torch.llama.compiled.numbers import ONE, ZERO, exp, narrow, widen
from refork.engines.torch.llama.compiled.vectors import (
    LANES,
    add_products,
    pointer,
    set_products,
    transpose,
)

BLOCK = 64
"""Keys that are laid out side by side."""


class Sight(NamedTuple):
    """What rows see; int64 [rows], `starts` one longer than there are prefixes.

    A prefix is a state [layers, 2, key heads, held, width].
    """

    own: Array  # columns of the memory
    addresses: Array  # of prefixes
    held: Array  # tokens that the prefix has
    shared: Array  # tokens that are seen of it
    order: Array  # rows, those of one prefix side by side
    starts: Array  # where each prefix begins in that order, and the end


class _Desk(NamedTuple):
    """What is on the way; float32."""

    questions: Array  # [rows, members, width]
    scores: Array  # [rows, members, positions and some more]
    inverses: Array  # of the sums of a softmax [rows, members]
    answers: Array  # [rows, members, width and some more]
    keys: Array  # [width, BLOCK]
    values: Array  # [BLOCK, width and some more]


@compiled()
def attend(query: Array, memory: Array, layer: int, sight: Sight, out: Array) -> None:
    """Attend with one token a row.

    Parameters
    ----------
    query
        [rows, heads, width]
    memory
        The rows' own keys and values [layers, 2, rows, key heads, columns, width], columns a
        multiple of LANES wherever a row has own tokens.
    layer
        That is read.
    sight
        What each row sees.
    out
        [rows, heads, width]
    """
    width, layers, key_heads = query.shape[2], memory.shape[0], memory.shape[3]
    members = query.shape[1] // key_heads
    desk = _lay_desk(query, members, sight)
    for group in range(len(sight.starts) - 1):
        rows = sight.order[sight.starts[group] : sight.starts[group + 1]]
        shape = (layers, 2, key_heads, sight.held[rows[0]], width)
        prefix = carray(pointer(sight.addresses[rows[0]], memory), shape)[layer]
        for head in range(key_heads):
            heads = slice(head * members, (head + 1) * members)
            _ask(query[:, heads], rows, desk)
            _score(prefix[0, head], rows, sight.shared, desk)
            for row in rows:
                shared, own = sight.shared[row], sight.own[row]
                _score_own(memory[layer, 0, row, head], own, row, shared, desk)
                _weigh(desk.scores[row], shared + own, desk.inverses[row])
            _sum(prefix[1, head], rows, sight.shared, desk)
            for row in rows:
                shared, own = sight.shared[row], sight.own[row]
                _sum_own(memory[layer, 1, row, head], own, row, shared, desk)
                _answer(desk.answers[row], desk.inverses[row], out[row, heads])


@compiled()
def _lay_desk(query: Any, members: int, sight: Sight) -> _Desk:
    count, width = len(query), query.shape[2]
    breadth = -(-width // LANES) * LANES
    longest = 0
    for row in range(count):
        longest = max(longest, sight.shared[row] + sight.own[row])
    return _Desk(
        np.empty((count, members, width), np.float32),
        np.empty((count, members, longest + 2 * BLOCK), np.float32),
        np.empty((count, members), np.float32),
        np.empty((count, members, breadth), np.float32),
        np.zeros((width, BLOCK), np.float32),
        np.zeros((BLOCK, breadth), np.float32),
    )


@compiled()
def _ask(query: Any, rows: Any, desk: _Desk) -> None:
    """Write the queries [rows, members, width], divided by the root of the width."""
    members, width = query.shape[1:]
    scale = ONE / np.sqrt(np.float32(width))
    for row in rows:
        desk.answers[row] = ZERO
        for member in range(members):
            for place in range(width):
                value: Any = widen(query[row, member, place])
                desk.questions[row, member, place] = scale * value


@compiled()
def _longest(rows: Any, shared: Any) -> int:
    longest = 0
    for row in rows:
        longest = max(longest, shared[row])
    return longest


@compiled()
def _lay_keys(keys: Any, laid: Any) -> None:
    """Lay keys [count, width] out as float32 [width, BLOCK], so that they can be taken abreast."""
    count, width = keys.shape
    whole, broad = count // LANES * LANES, width // LANES * LANES
    transpose(keys, laid)
    for key in range(count):
        for place in range(broad if key < whole else 0, width):
            laid[place, key] = widen(keys[key, place])


@compiled()
def _lay_values(values: Any, laid: Any) -> None:
    for key in range(values.shape[0]):
        for place in range(values.shape[1]):
            laid[key, place] = widen(values[key, place])


@compiled()
def _score(keys: Any, rows: Any, shared: Any, desk: _Desk) -> None:
    """Score the keys of a prefix; what lies behind the tokens that a row sees is no score yet."""
    longest = _longest(rows, shared)
    for first in range(0, longest, BLOCK):
        _lay_keys(keys[first : min(first + BLOCK, longest)], desk.keys)
        for row in rows:
            if first < shared[row]:
                part = desk.scores[row, :, first : first + BLOCK]
                set_products(part, desk.questions[row], desk.keys)


@compiled()
def _score_own(keys: Any, count: int, row: int, shared: int, desk: _Desk) -> None:
    for first in range(0, count, BLOCK):
        # Whole tiles are transposed faster; the columns behind the row's own are no scores.
        last = min(first + BLOCK, -(-count // LANES) * LANES)
        _lay_keys(keys[first:last], desk.keys)
        part = desk.scores[row, :, shared + first : shared + first + BLOCK]
        set_products(part, desk.questions[row], desk.keys)


@compiled(without_nan=True)
def _largest(values: Any) -> Any:
    largest = values[0]
    for value in values:
        largest = max(largest, value)
    return largest


@compiled()
def _weigh(scores: Any, count: int, inverses: Any) -> None:
    """Turn scores into e^(score − largest), and write 1 / Σ of each member."""
    whole = -(-count // LANES) * LANES
    lanes = np.empty(LANES, np.float32)
    for member in range(len(scores)):
        row = scores[member]
        largest = _largest(row[:count])
        for position in range(count):
            row[position] = exp(row[position] - largest)
        row[count:whole] = ZERO
        lanes[:] = ZERO
        for first in range(0, whole, LANES):
            for lane in range(LANES):
                lanes[lane] += row[first + lane]
        total: Any = ZERO
        for lane in range(LANES):
            total += lanes[lane]
        inverses[member] = ONE / total


@compiled()
def _sum(values: Any, rows: Any, shared: Any, desk: _Desk) -> None:
    """Add the values of a prefix, weighed."""
    longest = _longest(rows, shared)
    for first in range(0, longest, BLOCK):
        _lay_values(values[first : min(first + BLOCK, longest)], desk.values)
        for row in rows:
            last = min(first + BLOCK, shared[row])
            if first < last:
                add_products(desk.answers[row], desk.scores[row, :, first:last], desk.values)


@compiled()
def _sum_own(values: Any, count: int, row: int, shared: int, desk: _Desk) -> None:
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        _lay_values(values[first:last], desk.values)
        part = desk.scores[row, :, shared + first : shared + last]
        add_products(desk.answers[row], part, desk.values)


@compiled()
def _answer(answers: Any, inverses: Any, out: Any) -> None:
    for member in range(len(out)):
        for place in range(out.shape[1]):
            out[member, place] = narrow(answers[member, place] * inverses[member], out)

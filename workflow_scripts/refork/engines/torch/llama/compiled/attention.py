"""Attention of one token a row over a prefix, which rows may share, and the row's own tokens.

A score is a sum over the width of a head in its order, an output one over positions in theirs, each
term added by a fused product; the sum of a softmax goes by lanes of the absolute position. So
where a prefix ends, who shares it and what stands beside a row changes nothing.
"""

from typing import Any

import numba
import numpy as np

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


@compiled()
def attend(
    query: Array,
    memory: Array,
    layer: int,
    own: Array,
    prefixes: tuple[Array, Array, Array],
    groups: tuple[Array, Array],
    out: Array,
) -> None:
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
    own
        Columns of the memory that each row sees.
    prefixes
        By row: address of a state [layers, 2, key heads, held, width], tokens held, tokens seen.
    groups
        Rows in the order of prefixes, and where each prefix begins among them, and the end.
    out
        [rows, heads, width]
    """
    (count, heads, width), (layers, _, _, key_heads) = query.shape, memory.shape[:4]
    addresses, held, shared = prefixes
    members, breadth = heads // key_heads, -(-width // LANES) * LANES
    questions = np.empty((count, members, width), np.float32)
    answers = np.zeros((count, members, breadth), np.float32)
    inverses = np.empty((count, members), np.float32)
    longest = 0
    for row in range(count):
        longest = max(longest, shared[row] + own[row])
    scores = np.empty((count, members, longest + 2 * BLOCK), np.float32)
    laid = np.zeros((width, BLOCK), np.float32), np.zeros((BLOCK, breadth), np.float32)
    order, bounds = groups
    for group in range(len(bounds) - 1):
        rows = order[bounds[group] : bounds[group + 1]]
        shape = (layers, 2, key_heads, held[rows[0]], width)
        prefix = numba.carray(pointer(addresses[rows[0]], memory), shape)[layer]
        for head in range(key_heads):
            _ask(query, rows, head, questions)
            _score(prefix[0, head], rows, shared, questions, laid[0], scores)
            for row in rows:
                keys = memory[layer, 0, row, head]
                _score_own(keys, own[row], questions[row], laid[0], scores[row, :, shared[row] :])
                _weigh(scores[row], shared[row] + own[row], inverses[row])
                answers[row] = ZERO
            _sum(prefix[1, head], rows, shared, scores, laid[1], answers)
            for row in rows:
                values = memory[layer, 1, row, head]
                _sum_own(values, own[row], scores[row, :, shared[row] :], laid[1], answers[row])
                _answer(
                    answers[row], inverses[row], out[row, head * members : (head + 1) * members]
                )


@compiled()
def _ask(query: Any, rows: Any, head: int, questions: Any) -> None:
    """Write the queries of a key head's members, divided by the root of the width."""
    members, width = questions.shape[1:]
    scale = ONE / np.sqrt(np.float32(width))
    for row in rows:
        for member in range(members):
            for place in range(width):
                value: Any = widen(query[row, head * members + member, place])
                questions[row, member, place] = scale * value


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
def _score(keys: Any, rows: Any, shared: Any, questions: Any, laid: Any, scores: Any) -> None:
    """Score the keys of a prefix; what lies behind the tokens that a row sees is no score yet."""
    longest = 0
    for row in rows:
        longest = max(longest, shared[row])
    for first in range(0, longest, BLOCK):
        _lay_keys(keys[first : min(first + BLOCK, longest)], laid)
        for row in rows:
            if first < shared[row]:
                set_products(scores[row, :, first : first + BLOCK], questions[row], laid)


@compiled()
def _score_own(keys: Any, count: int, questions: Any, laid: Any, scores: Any) -> None:
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, -(-count // LANES) * LANES)
        _lay_keys(keys[first:last], laid)
        set_products(scores[:, first : first + BLOCK], questions, laid)


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


@compiled(without_nan=True)
def _largest(values: Any) -> Any:
    largest = values[0]
    for value in values:
        largest = max(largest, value)
    return largest


@compiled()
def _sum(values: Any, rows: Any, shared: Any, scores: Any, laid: Any, answers: Any) -> None:
    """Add the values of a prefix, weighed."""
    longest = 0
    for row in rows:
        longest = max(longest, shared[row])
    for first in range(0, longest, BLOCK):
        _lay_values(values[first : min(first + BLOCK, longest)], laid)
        for row in rows:
            last = min(first + BLOCK, shared[row])
            if first < last:
                add_products(answers[row], scores[row, :, first:last], laid)


@compiled()
def _sum_own(values: Any, count: int, scores: Any, laid: Any, answers: Any) -> None:
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        _lay_values(values[first:last], laid)
        add_products(answers, scores[:, first:last], laid)


@compiled()
def _answer(answers: Any, inverses: Any, out: Any) -> None:
    for member in range(len(out)):
        for place in range(out.shape[1]):
            out[member, place] = narrow(answers[member, place] * inverses[member], out)

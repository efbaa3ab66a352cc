"""What stands between the linear maps."""

from typing import Any, NamedTuple

import numpy as np

from refork.engines.torch.llama.compiled.compiler import Array, compiled
from refork.engines.torch.llama.compiled.numbers import ONE, ZERO, exp, narrow, widen


@compiled(add_in_any_order=True)
def _inverse_root_mean_square(values: Any, epsilon: Any) -> Any:
    total: Any = ZERO
    for value in values:
        total += value * value
    return ONE / np.sqrt(total / np.float32(len(values)) + epsilon)


@compiled()
def add_norm(stream: Array, update: Array, weight: Array, epsilon: float, normed: Array) -> None:
    """Add the update, unless it has no rows, to the stream [rows, width]; write it normalised."""
    width = stream.shape[1]
    values = np.empty(width, np.float32)
    for row in range(len(stream)):
        if len(update):
            for place in range(width):
                total: Any = widen(stream[row, place]) + widen(update[row, place])
                stream[row, place] = narrow(total, stream)
        for place in range(width):
            values[place] = widen(stream[row, place])
        scale = _inverse_root_mean_square(values, np.float32(epsilon))
        for place in range(width):
            unit: Any = narrow(values[place] * scale, normed)
            normed[row, place] = narrow(widen(unit) * widen(weight[place]), normed)


@compiled()
def gate(projected: Array, gated: Array) -> None:
    """Write silu(g)·u of rows of gates g and ups u, side by side [rows, 2 · width]."""
    width = gated.shape[1]
    for row in range(len(gated)):
        for place in range(width):
            value: Any = widen(projected[row, place])
            # 1 / (1 + e⁻ᵛ) by the exponential of a negative number on either side of 0.
            power = exp(-abs(value))
            share = (ONE if value >= 0 else power) / (ONE + power)
            silu = narrow(value * share, gated)
            gated[row, place] = narrow(widen(silu) * widen(projected[row, width + place]), gated)


@compiled()
def _load(source: Any, norm: Array, epsilon: float, values: Any) -> None:
    """Read one head, normalised where the model has a weight for that."""
    for place in range(len(values)):
        values[place] = widen(source[place])
    if len(norm) == 0:
        return
    scale = _inverse_root_mean_square(values, np.float32(epsilon))
    for place in range(len(values)):
        unit: Any = narrow(values[place] * scale, source)
        values[place] = widen(narrow(widen(unit) * widen(norm[place]), source))


@compiled()
def _rotate(values: Any, cosine: Any, sine: Any, out: Any) -> None:
    half = len(cosine)
    for place in range(half):
        left, right = values[place], values[half + place]
        out[place] = narrow(left * cosine[place] - right * sine[place], out)
        out[half + place] = narrow(right * cosine[place] + left * sine[place], out)


class HeadNorms(NamedTuple):
    """By what heads are normalised before they are rotated; weights [0] where they are not."""

    query: Array  # [width]
    key: Array  # [width]
    epsilon: float


class Landing(NamedTuple):
    """Where tokens stand; int64 [tokens], and cosines and sines [positions, width / 2]."""

    positions: Array
    rows: Array
    columns: Array
    cosines: Array
    sines: Array


@compiled()
def place(
    projected: Array, norms: HeadNorms, landing: Landing, memory: Array, query: Array
) -> None:
    """Rotate queries and keys, and write keys and values to the memory.

    Parameters
    ----------
    projected
        Queries, keys and values of tokens [tokens, (heads + 2 · key heads) · width].
    norms
        Of queries and keys.
    landing
        Where the tokens stand in their sequences and in the memory.
    memory
        Keys and values of a layer [2, rows, key heads, columns, width].
    query
        [tokens, heads, width]
    """
    heads, width = query.shape[1:]
    key_heads = memory.shape[2]
    values = np.empty(width, np.float32)
    for number in range(len(query)):
        source, position = projected[number], landing.positions[number]
        row, column = landing.rows[number], landing.columns[number]
        cosine, sine = landing.cosines[position], landing.sines[position]
        for head in range(heads):
            first = head * width
            _load(source[first : first + width], norms.query, norms.epsilon, values)
            _rotate(values, cosine, sine, query[number, head])
        for head in range(key_heads):
            first = (heads + head) * width
            _load(source[first : first + width], norms.key, norms.epsilon, values)
            _rotate(values, cosine, sine, memory[0, row, head, column])
            first += key_heads * width
            memory[1, row, head, column] = source[first : first + width]

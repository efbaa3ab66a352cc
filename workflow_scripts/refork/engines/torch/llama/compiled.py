"""Kernels on the CPU, compiled by numba: a row's numbers depend on nothing but that row.

bfloat16 stands as uint16 and is computed with as float32. All kernels are in one file, for numba's
cache of compiled code takes notice of changes in a kernel's own file alone.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Array = Any  # of uint16 (bfloat16) or float32
Function = TypeVar("Function", bound=Callable[..., Any])

BLOCK = 64
"""Keys that are laid out side by side."""
LANES = 16
"""Partial sums of a softmax; a key's lane is its position modulo LANES."""
STRIDE = 8
"""Terms that a multiply-add loop takes in one turn."""

_WORD, _FLOAT = ir.IntType(32), ir.FloatType()
_HALF = ir.Constant(_WORD, 16)

_LOWEST = np.float32(-87.0)  # e^x is a normal float32 above it
_LOG2_E = np.float32(math.log2(math.e))
_ROUND = np.float32(1.5 * 2**23)  # a float32 plus this has no fraction; its low bits are an integer
_ROUND_BITS, _BIAS, _MANTISSA = np.int32(0x4B400000), np.int32(127), np.int32(23)
_LN2_HIGH, _LN2_LOW = np.float32(-0.693359375), np.float32(2.12194440e-4)
_POLYNOMIAL = tuple(
    np.float32(coefficient)
    for coefficient in (
        *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
        *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
    )
)
_ZERO, _ONE = np.float32(0), np.float32(1)


def _compiled(*, add_in_any_order: bool = False) -> Callable[[Function], Function]:
    """Compile a function; sums over one row may be reordered, always in the same way."""
    fast = {"reassoc", "contract", "nsz"} if add_in_any_order else set()

    def decorate(function: Function) -> Function:
        compiled: Function = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fast)(
            function
        )
        return compiled

    return decorate


def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Give a·b + c, rounded once, in vectors as in single numbers."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), code


def _widen(_: Any, value: Any) -> Any:
    """Give the float32 of a number as it is stored."""

    def from_bfloat16(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = builder.zext(arguments[0], _WORD)
        return builder.bitcast(builder.shl(word, _HALF), _FLOAT)

    def from_float32(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    code = from_float32 if value == types.float32 else from_bfloat16
    return types.float32(value), code


def _narrow(_: Any, value: Any, like: Any) -> Any:
    """Give a float32 as an array stores it, rounded to the nearest, to even between two."""

    def to_bfloat16(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = builder.bitcast(arguments[0], _WORD)
        odd = builder.and_(builder.lshr(word, _HALF), ir.Constant(_WORD, 1))
        rounded = builder.add(builder.add(word, ir.Constant(_WORD, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, _HALF), ir.IntType(16))

    def to_float32(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    code = to_float32 if like.dtype == types.float32 else to_bfloat16
    return like.dtype(types.float32, like), code


def _pointer(_: Any, address: Any, like: Any) -> Any:
    """Give the pointer to memory that holds what an array holds."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.int64, like), code


fma, widen, narrow, pointer = (
    intrinsic(function) for function in (_fma, _widen, _narrow, _pointer)
)


@_compiled()
def _exp(x: Any) -> Any:
    """Give e^x of a float32 at or below 0, to 2 units in the last place; 0 below −87.

    Coefficients of `expf` in the Cephes library (Moshier 1989).
    """
    rounded = fma(x, _LOG2_E, _ROUND)
    whole = rounded - _ROUND
    rest = fma(whole, _LN2_LOW, fma(whole, _LN2_HIGH, x))
    value = fma(_POLYNOMIAL[0], rest, _POLYNOMIAL[1])
    value = fma(value, rest, _POLYNOMIAL[2])
    value = fma(value, rest, _POLYNOMIAL[3])
    value = fma(value, rest, _POLYNOMIAL[4])
    value = fma(value, rest, _POLYNOMIAL[5])
    value = fma(value * rest, rest, rest) + _ONE
    exponent = np.float32(rounded).view(np.int32) - _ROUND_BITS + _BIAS
    power = np.int32(exponent << _MANTISSA).view(np.float32)
    return _ZERO if x < _LOWEST else value * power


@_compiled(add_in_any_order=True)
def _inverse_root_mean_square(values: Any, epsilon: Any) -> Any:
    total = _ZERO
    for value in values:
        total += value * value
    return _ONE / np.sqrt(total / np.float32(len(values)) + epsilon)


@_compiled()
def add_norm(
    stream: Array, update: Array, weight: Array, epsilon: float, adding: bool, normed: Array
) -> None:
    """Add the update to the stream [rows, width], and write its normalised rows."""
    width = stream.shape[1]
    values = np.empty(width, np.float32)
    for row in range(len(stream)):
        if adding:
            for place in range(width):
                total = widen(stream[row, place]) + widen(update[row, place])
                stream[row, place] = narrow(total, stream)
        for place in range(width):
            values[place] = widen(stream[row, place])
        scale = _inverse_root_mean_square(values, np.float32(epsilon))
        for place in range(width):
            unit = narrow(values[place] * scale, normed)
            normed[row, place] = narrow(widen(unit) * widen(weight[place]), normed)


@_compiled()
def gate(projected: Array, gated: Array) -> None:
    """Write silu(g)·u of rows of gates g and ups u, side by side [rows, 2 · width]."""
    width = gated.shape[1]
    for row in range(len(gated)):
        for place in range(width):
            value = widen(projected[row, place])
            # 1 / (1 + e⁻ᵛ) by the exponential of a negative number on either side of 0.
            power = _exp(-abs(value))
            share = (_ONE if value >= 0 else power) / (_ONE + power)
            silu = narrow(value * share, gated)
            gated[row, place] = narrow(widen(silu) * widen(projected[row, width + place]), gated)


@_compiled()
def _rotate(values: Any, cosine: Any, sine: Any, out: Any) -> None:
    half = len(cosine)
    for place in range(half):
        left, right = values[place], values[half + place]
        out[place] = narrow(left * cosine[place] - right * sine[place], out)
        out[half + place] = narrow(right * cosine[place] + left * sine[place], out)


@_compiled()
def _load(source: Any, norm: Array, epsilon: float, values: Any) -> None:
    """Read one head, normalised where the model has a weight for that."""
    for place in range(len(values)):
        values[place] = widen(source[place])
    if len(norm) == 0:
        return
    scale = _inverse_root_mean_square(values, np.float32(epsilon))
    for place in range(len(values)):
        unit = narrow(values[place] * scale, source)
        values[place] = widen(narrow(widen(unit) * widen(norm[place]), source))


@_compiled()
def place(
    projected: Array,
    norms: tuple[Array, Array],
    epsilon: float,
    table: tuple[Array, Array],
    where: tuple[Array, Array, Array],
    memory: Array,
    layer: int,
    query: Array,
) -> None:
    """Rotate queries and keys [rows, (heads + 2 · key heads) · width]; remember keys and values."""
    positions, rows, columns = where
    heads, width = query.shape[1:]
    key_heads = memory.shape[3]
    values = np.empty(width, np.float32)
    for number in range(len(query)):
        cosine, sine = table[0][positions[number]], table[1][positions[number]]
        source = projected[number]
        row, column = rows[number], columns[number]
        for head in range(heads):
            _load(source[head * width : (head + 1) * width], norms[0], epsilon, values)
            _rotate(values, cosine, sine, query[number, head])
        for head in range(key_heads):
            first = (heads + head) * width
            _load(source[first : first + width], norms[1], epsilon, values)
            _rotate(values, cosine, sine, memory[layer, 0, row, head, column])
            first += key_heads * width
            memory[layer, 1, row, head, column] = source[first : first + width]


def _add_products(_: Any, out: Any, coefficients: Any, matrix: Any) -> Any:
    """Add Σ c_i · m_i to a row, one i after the other; LANES columns stand in a vector.

    Written as vectors, for the sums to stay in registers: LLVM leaves them in memory.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(signature.args, arguments, strict=True)
        ]
        totals, factors, rows = (array.data for array in arrays)
        count = cgutils.unpack_tuple(builder, arrays[1].shape)[0]
        columns = cgutils.unpack_tuple(builder, arrays[2].shape)[1]
        done = cgutils.alloca_once_value(builder, columns.type(0))
        for vectors in (4, 1):
            step = columns.type(vectors * LANES)
            first = builder.load(done)
            turns = builder.sdiv(builder.sub(columns, first), step)
            with cgutils.for_range(builder, turns) as loop:
                start = builder.add(first, builder.mul(loop.index, step))
                _vector_sums(builder, totals, factors, rows, (start, count, columns), vectors)
            builder.store(builder.add(first, builder.mul(turns, step)), done)
        return context.get_dummy_value()

    return types.none(out, coefficients, matrix), code


def _vector_sums(
    builder: Any, totals: Any, factors: Any, rows: Any, sizes: tuple[Any, Any, Any], vectors: int
) -> None:
    """Emit the loop over i for some vectors of columns, from `start` on."""
    start, count, columns = sizes
    vector = ir.VectorType(_FLOAT, LANES)
    kind = ir.FunctionType(vector, (vector, vector, vector))
    fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")

    def address(pointer: Any, place: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [place]), vector.as_pointer())

    places = [builder.add(start, start.type(number * LANES)) for number in range(vectors)]
    sums = [cgutils.alloca_once(builder, vector) for _ in places]
    for place, total in zip(places, sums, strict=True):
        builder.store(builder.load(address(totals, place), align=4), total)
    with cgutils.for_range(builder, count) as loop:
        factor = builder.load(builder.gep(factors, [loop.index]))
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), factor, ir.Constant(_WORD, 0))
        splat = builder.shuffle_vector(
            one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_WORD, LANES), None)
        )
        row = builder.mul(loop.index, columns)
        for place, total in zip(places, sums, strict=True):
            part = builder.load(address(rows, builder.add(row, place)), align=4)
            builder.store(builder.call(fused, (splat, part, builder.load(total))), total)
    for place, total in zip(places, sums, strict=True):
        store = builder.store(builder.load(total), address(totals, place))
        store.align = 4


add_products = intrinsic(_add_products)


@_compiled()
def _lay_keys(keys: Any, staged: Any) -> None:
    """Lay keys [count, width] out as float32 [width, BLOCK], so that they can be taken abreast."""
    for j in range(len(keys)):
        for i in range(keys.shape[1]):
            staged[i, j] = widen(keys[j, i])


@_compiled()
def _lay_values(values: Any, staged: Any) -> None:
    for j in range(len(values)):
        for i in range(values.shape[1]):
            staged[j, i] = widen(values[j, i])


@_compiled()
def _softmax(scores: Any, count: int) -> Any:
    """Turn scores into e^(score − largest); gives 1 / Σ, added up by lanes of the position."""
    largest = scores[0]
    for position in range(count):
        largest = max(largest, scores[position])
    whole = -(-count // LANES) * LANES
    for position in range(count):
        scores[position] = _exp(scores[position] - largest)
    scores[count:whole] = _ZERO
    lanes = np.zeros(LANES, np.float32)
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[lane] += scores[first + lane]
    total = _ZERO
    for lane in range(LANES):
        total += lanes[lane]
    return _ONE / total


@_compiled()
def attend(
    query: Array,
    memory: Array,
    layer: int,
    own: Array,
    prefixes: tuple[Array, Array, Array],
    order: Array,
    bounds: Array,
    out: Array,
) -> None:
    """Attend to prefixes that rows share, then to the rows' own keys and values.

    A score is a sum over the head's width in its order, an output one over positions in theirs, so
    where a prefix ends and who shares it changes nothing.

    Parameters
    ----------
    query
        [rows, heads, width]
    memory
        The rows' own keys and values [layers, 2, rows, key heads, columns, width].
    own
        Columns that each row has filled.
    prefixes
        By row: address of a state [layers, 2, key heads, held, width], tokens held, tokens used.
    order, bounds
        Rows by prefix: those of prefix g are order[bounds[g] : bounds[g + 1]].
    out
        [rows, heads, width]
    """
    heads, width = query.shape[1:]
    layers, _, _, key_heads, _, _ = memory.shape
    group = heads // key_heads
    addresses, held, shared = prefixes
    scale = _ONE / np.sqrt(np.float32(width))
    breadth = -(-width // LANES) * LANES
    staged_keys = np.zeros((width, BLOCK), np.float32)
    staged_values = np.zeros((BLOCK, breadth), np.float32)
    questions = np.empty((len(query), group, width), np.float32)
    answers = np.empty((len(query), group, breadth), np.float32)
    reach = 0
    for row in range(len(query)):
        reach = max(reach, shared[row] + own[row])
    scores = np.empty((len(query), group, reach + 2 * BLOCK), np.float32)
    for number in range(len(bounds) - 1):
        rows = order[bounds[number] : bounds[number + 1]]
        longest = 0
        for row in rows:
            longest = max(longest, shared[row])
        prefix = numba.carray(
            pointer(addresses[rows[0]], memory), (layers, 2, key_heads, held[rows[0]], width)
        )[layer]
        for head in range(key_heads):
            for row in rows:
                for member in range(group):
                    for i in range(width):
                        questions[row, member, i] = scale * widen(
                            query[row, head * group + member, i]
                        )
            # Scores against the prefix
            for first in range(0, longest, BLOCK):
                _lay_keys(prefix[0, head, first : min(first + BLOCK, longest)], staged_keys)
                for row in rows:
                    if first < shared[row]:
                        for member in range(group):
                            part = scores[row, member, first : first + BLOCK]
                            part[:] = _ZERO
                            add_products(part, questions[row, member], staged_keys)
            for row in rows:
                for first in range(0, own[row], BLOCK):
                    last = min(first + BLOCK, own[row])
                    _lay_keys(memory[layer, 0, row, head, first:last], staged_keys)
                    for member in range(group):
                        start = shared[row] + first
                        part = scores[row, member, start : start + BLOCK]
                        part[:] = _ZERO
                        add_products(part, questions[row, member], staged_keys)
                for member in range(group):
                    answers[row, member] = _ZERO
            totals = np.empty((len(query), group), np.float32)
            for row in rows:
                for member in range(group):
                    totals[row, member] = _softmax(scores[row, member], shared[row] + own[row])
            for first in range(0, longest, BLOCK):
                _lay_values(prefix[1, head, first : min(first + BLOCK, longest)], staged_values)
                for row in rows:
                    last = min(first + BLOCK, shared[row])
                    if first < last:
                        for member in range(group):
                            add_products(
                                answers[row, member], scores[row, member, first:last], staged_values
                            )
            for row in rows:
                for first in range(0, own[row], BLOCK):
                    last = min(first + BLOCK, own[row])
                    _lay_values(memory[layer, 1, row, head, first:last], staged_values)
                    for member in range(group):
                        add_products(
                            answers[row, member],
                            scores[row, member, shared[row] + first : shared[row] + last],
                            staged_values,
                        )
                for member in range(group):
                    for i in range(width):
                        value = answers[row, member, i] * totals[row, member]
                        out[row, head * group + member, i] = narrow(value, out)

"""What is written as vectors, for LLVM does not find it by itself."""

from collections.abc import Callable, Iterator
from typing import Any

import numba.core.cgutils
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from refork.engines.torch.llama.compiled.numbers import FLOAT, WORD

cgutils: Any = numba.core.cgutils

LANES = 16
"""Numbers of a vector."""
_FLOATS, _WORDS = ir.VectorType(FLOAT, LANES), ir.VectorType(WORD, LANES)


class _Rows:
    """An array [rows, columns] in the code of a function; a row's numbers stand side by side."""

    def __init__(self, context: Any, builder: Any, kind: Any, argument: Any) -> None:
        array = context.make_array(kind)(context, builder, argument)
        self.rows, self.columns = cgutils.unpack_tuple(builder, array.shape)
        self._builder, self._data = builder, builder.bitcast(array.data, cgutils.voidptr_t)
        self._stride = cgutils.unpack_tuple(builder, array.strides)[0]
        self._number = context.get_data_type(kind.dtype)
        self._size = context.get_abi_sizeof(self._number)

    def number(self, row: Any, column: Any) -> Any:
        """Load one number."""
        return self._builder.load(self._pointer(row, column, self._number))

    def load(self, row: Any, column: Any) -> Any:
        """Load a vector that begins at a column."""
        kind = ir.VectorType(self._number, LANES)
        return self._builder.load(self._pointer(row, column, kind), align=self._size)

    def store(self, row: Any, column: Any, vector: Any) -> None:
        """Store a vector that begins at a column."""
        self._builder.store(vector, self._pointer(row, column, vector.type), align=self._size)

    def _pointer(self, row: Any, column: Any, kind: Any) -> Any:
        builder = self._builder
        size = column.type(self._size)
        offset = builder.add(builder.mul(row, self._stride), builder.mul(column, size))
        return builder.bitcast(builder.gep(self._data, [offset]), kind.as_pointer())


def _turns(builder: Any, count: Any, steps: tuple[int, ...]) -> Iterator[tuple[Any, int]]:
    """Emit loops over a count, the longest steps first; yields a turn's beginning and its step."""
    done = cgutils.alloca_once_value(builder, count.type(0))
    for step in steps:
        first, length = builder.load(done), count.type(step)
        turns = builder.sdiv(builder.sub(count, first), length)
        with cgutils.for_range(builder, turns) as loop:
            yield builder.add(first, builder.mul(loop.index, length)), step
        builder.store(builder.add(first, builder.mul(turns, length)), done)


def _moved(place: Any, steps: int, builder: Any) -> Any:
    return builder.add(place, place.type(steps))


def _products(adding: bool) -> Callable[..., Any]:
    """Sum rows of a matrix, each times its coefficient, one after the other.

    `totals` [members, columns] are the sums, which are added to or set; `coefficients` are
    [members, count] and the `matrix` is [count, columns], columns a multiple of LANES.
    """

    def typed(_: Any, totals: Any, coefficients: Any, matrix: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = [
                _Rows(context, builder, kind, argument)
                for kind, argument in zip(signature.args, arguments, strict=True)
            ]
            for member, members in _turns(builder, parts[0].rows, (2, 1)):
                for column, columns in _turns(builder, parts[2].columns, (4 * LANES, LANES)):
                    rows = [_moved(member, step, builder) for step in range(members)]
                    places = [_moved(column, step, builder) for step in range(0, columns, LANES)]
                    _tile(builder, parts, rows, places, adding)
            return context.get_dummy_value()

        return types.none(totals, coefficients, matrix), code

    return typed


def _tile(
    builder: Any, parts: list[_Rows], rows: list[Any], places: list[Any], adding: bool
) -> None:
    """Emit the sums of some members and vectors, which stay in registers."""
    totals, coefficients, matrix = parts
    kind = ir.FunctionType(_FLOATS, (_FLOATS, _FLOATS, _FLOATS))
    fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
    tile = [(row, place) for row in rows for place in places]
    sums = [cgutils.alloca_once(builder, _FLOATS) for _ in tile]
    for (row, place), total in zip(tile, sums, strict=True):
        start = totals.load(row, place) if adding else ir.Constant(_FLOATS, None)
        builder.store(start, total)
    with cgutils.for_range(builder, coefficients.columns) as loop:
        factors = [_spread(builder, coefficients.number(row, loop.index)) for row in rows]
        vectors = [matrix.load(loop.index, place) for place in places]
        pairs = [(factor, vector) for factor in factors for vector in vectors]
        for (factor, vector), total in zip(pairs, sums, strict=True):
            builder.store(builder.call(fused, (factor, vector, builder.load(total))), total)
    for (row, place), total in zip(tile, sums, strict=True):
        totals.store(row, place, builder.load(total))


def _spread(builder: Any, number: Any) -> Any:
    """Give a vector of one number."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(WORD, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(_WORDS, None))


def _transpose(_: Any, source: Any, target: Any) -> Any:
    """Write whole tiles of LANES by LANES numbers, widened to float32, rows as columns."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, wanted = (
            _Rows(context, builder, kind, argument)
            for kind, argument in zip(signature.args, arguments, strict=True)
        )
        for row, _ in _turns(builder, given.rows, (LANES,)):
            for column, _ in _turns(builder, given.columns, (LANES,)):
                tile = [given.load(_moved(row, step, builder), column) for step in range(LANES)]
                for step, vector in enumerate(_transposed(builder, tile)):
                    wanted.store(_moved(column, step, builder), row, _widened(builder, vector))
        return context.get_dummy_value()

    return types.none(source, target), code


def _transposed(builder: Any, tile: list[Any]) -> list[Any]:
    """Transpose by interleaving each row with the one half a tile below, log₂ LANES times."""
    half = LANES // 2
    low = [
        place
        for pair in zip(range(half), range(LANES, LANES + half), strict=True)
        for place in pair
    ]
    masks = [ir.Constant(_WORDS, [first + place for place in low]) for first in (0, half)]
    for _ in range(LANES.bit_length() - 1):
        tile = [
            builder.shuffle_vector(tile[row], tile[row + half], mask)
            for row in range(half)
            for mask in masks
        ]
    return tile


def _widened(builder: Any, vector: Any) -> Any:
    if vector.type == _FLOATS:
        return vector
    words = builder.shl(builder.zext(vector, _WORDS), ir.Constant(_WORDS, [LANES] * LANES))
    return builder.bitcast(words, _FLOATS)


def _pointer(_: Any, address: Any, like: Any) -> Any:
    """Give the pointer to memory that holds numbers as an array does."""
    kind: Any = types.CPointer(like.dtype)  # type: ignore[no-untyped-call]

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return kind(types.int64, like), code


set_products: Any = intrinsic(_products(adding=False))
add_products: Any = intrinsic(_products(adding=True))
transpose: Any = intrinsic(_transpose)
pointer: Any = intrinsic(_pointer)

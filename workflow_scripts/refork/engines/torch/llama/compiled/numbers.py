"""Single numbers: bfloat16 and float32, fused products, the exponential."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from refork.engines.torch.llama.compiled.compiler import compiled

WORD, FLOAT = ir.IntType(32), ir.FloatType()
_HALF = ir.Constant(WORD, 16)
ZERO, ONE = np.float32(0), np.float32(1)

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


def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Give a·b + c, rounded once, in vectors as in single numbers."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), code


def _widen(_: Any, value: Any) -> Any:
    """Give the float32 of a number as it is stored."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if value == types.float32:
            return arguments[0]
        word = builder.zext(arguments[0], WORD)
        return builder.bitcast(builder.shl(word, _HALF), FLOAT)

    return types.float32(value), code


def _narrow(_: Any, value: Any, like: Any) -> Any:
    """Give a float32 as an array stores it, rounded to the nearest, to even between two."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if like.dtype == types.float32:
            return arguments[0]
        word = builder.bitcast(arguments[0], WORD)
        odd = builder.and_(builder.lshr(word, _HALF), ir.Constant(WORD, 1))
        rounded = builder.add(builder.add(word, ir.Constant(WORD, 0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, _HALF), ir.IntType(16))

    return like.dtype(types.float32, like), code


fma: Any = intrinsic(_fma)
widen: Any = intrinsic(_widen)
narrow: Any = intrinsic(_narrow)


@compiled()
def exp(x: Any) -> Any:
    """Give e^x of a float32 at or below 0, to 2 units in the last place; 0 below −87.

    Coefficients of `expf` in the Cephes library (Moshier 1989).
    """
    rounded: Any = fma(x, _LOG2_E, _ROUND)
    whole = rounded - _ROUND
    rest = fma(whole, _LN2_LOW, fma(whole, _LN2_HIGH, x))
    value = fma(_POLYNOMIAL[0], rest, _POLYNOMIAL[1])
    value = fma(value, rest, _POLYNOMIAL[2])
    value = fma(value, rest, _POLYNOMIAL[3])
    value = fma(value, rest, _POLYNOMIAL[4])
    value = fma(value, rest, _POLYNOMIAL[5])
    value = fma(value * rest, rest, rest) + ONE
    exponent = np.float32(rounded).view(np.int32) - _ROUND_BITS + _BIAS
    power = np.int32(exponent << _MANTISSA).view(np.float32)
    return ZERO if x < _LOWEST else value * power

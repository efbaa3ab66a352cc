"""Compiled costs of a segment, and the search for change points by any of them.

A cost of rows start..end is a function of sums over these rows, so it is taken from two rows of
running sums. Costs are rounded to whole multiples of 2^-24, and so are penalties: sums of them are
exact, so that ties are ties in whatever order somebody adds them up.

The search is PELT (Killick, Fearnhead and Eckley 2012, doi:10.1080/01621459.2012.737745) in the
form of the library ruptures. It goes through the rows once for all penalties, so that a cost that
several penalties ask for is computed once.

All kernels stand in this file, for compiled code is kept until its own file changes.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALE = 2.0**24

# Costs are told apart by number: code that takes a function is not kept between processes.
MULTINOMIAL, L2, LOGIT_LINEAR = range(3)

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


@_compiled
def on_grid(value: float) -> float:
    """Round to a whole multiple of 2^-24."""
    return math.floor(value * SCALE + 0.5) / SCALE


@_compiled
def _x_log_x(x: float, table: Floats) -> float:
    """Give x log x; from the table where x is whole and in it."""
    whole = int(x)
    if whole == x and whole < len(table):
        return float(table[whole])
    # A difference of running sums that are not whole may miss 0 by their rounding.
    return x * math.log(x) if x > 1e-9 else 0.0


@_compiled
def multinomial(sums: Floats, table: Floats, start: int, end: int) -> float:
    """Give -sum_k c_k log(c_k / n); sums of [c_1 ... c_K]."""
    cost = 0.0
    total = 0.0
    for k in range(sums.shape[1]):
        count = sums[end, k] - sums[start, k]
        total += count
        cost -= _x_log_x(count, table)
    return on_grid(cost + _x_log_x(total, table))


@_compiled
def l2(sums: Floats, start: int, end: int) -> float:
    """Give sum_t n_t |c_t/n_t - mean|^2; sums of [n, sum_k c_k^2/n, c_1 ... c_K]."""
    total = sums[end, 0] - sums[start, 0]
    if total <= 0:
        return 0.0
    squares = 0.0
    for k in range(2, sums.shape[1]):
        squares += (sums[end, k] - sums[start, k]) ** 2
    return on_grid(max(sums[end, 1] - sums[start, 1] - squares / total, 0.0))


@_compiled
def logit_linear(sums: Floats, start: int, end: int) -> float:
    """Give half the weighted squares about the best line, added over categories.

    Sums of [w, w t, w t^2, w z, w t z, w z^2] of each category, one after the other.
    """
    cost = 0.0
    for first in range(0, sums.shape[1], 6):
        w = sums[end, first] - sums[start, first]
        if w <= 0:
            continue
        wt = sums[end, first + 1] - sums[start, first + 1]
        wz = sums[end, first + 3] - sums[start, first + 3]
        tt = sums[end, first + 2] - sums[start, first + 2] - wt * wt / w
        tz = sums[end, first + 4] - sums[start, first + 4] - wt * wz / w
        zz = sums[end, first + 5] - sums[start, first + 5] - wz * wz / w
        # Where all weight lies on one row there is no slope.
        explained = tz * tz / tt if tt > 1e-12 * w else 0.0
        cost += 0.5 * max(zz - explained, 0.0)
    return on_grid(cost)


@_compiled
def error(kind: int, sums: Floats, table: Floats, start: int, end: int) -> float:
    """Give the cost of rows start..end, `kind` its number in the order of this file."""
    if kind == MULTINOMIAL:
        return multinomial(sums, table, start, end)
    if kind == L2:
        return l2(sums, start, end)
    return logit_linear(sums, start, end)


@_compiled
def search(kind: int, sums: Floats, table: Floats, penalties: Floats, min_size: int) -> Integers:
    """Find where the last segment of rows 0..end begins [rows + 1, penalties]."""
    rows, count = len(sums) - 1, len(penalties)
    previous = np.zeros((rows + 1, count), np.int64)
    best = np.full((rows + 1, count), np.inf)
    best[0] = 0.0
    starts = np.empty(rows + 1, np.int64)
    alive = np.empty((rows + 1, count), np.bool_)
    value = np.empty((rows + 1, count))
    candidates = 0
    for end in range(min_size, rows + 1):
        starts[candidates] = end - min_size
        alive[candidates] = True
        candidates += 1
        for i in range(candidates):
            start = starts[i]
            segment = error(kind, sums, table, start, end)
            for p in range(count):
                value[i, p] = best[start, p] + (segment + penalties[p])
                if alive[i, p] and value[i, p] < best[end, p]:
                    best[end, p] = value[i, p]
                    previous[end, p] = start
        kept = 0
        for i in range(candidates):
            wanted = False
            for p in range(count):
                alive[kept, p] = alive[i, p] and value[i, p] <= best[end, p] + penalties[p]
                wanted |= alive[kept, p]
            starts[kept] = starts[i]
            kept += wanted
        candidates = kept
    return previous

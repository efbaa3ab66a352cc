"""Compiled kernel smoothing of counts within segments.

Within rows start..end of a segment the smoothed counts at a position are

    alpha_k = prior + sum_s g(|position - position_s|) c_sk,

where g is given as a table over distances, 0 beyond its end.

All kernels stand in this file, for compiled code is kept until its own file changes.
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


class Rows(NamedTuple):
    """Positions, ascending [rows], and their counts [rows, categories]."""

    positions: Integers
    counts: Floats


@_compiled
def _spread(rows: Rows, table: Floats, start: int, end: int, alpha: Floats) -> None:
    """Add smoothed counts at the rows of a segment to alpha [categories, rows]."""
    positions, counts = rows
    weight = np.empty(len(positions))
    low, high = start, start
    for s in range(start, end):
        while positions[s] - positions[low] >= len(table):
            low += 1
        while high < end and positions[high] - positions[s] < len(table):
            high += 1
        for t in range(low, high):
            weight[t] = table[abs(positions[t] - positions[s])]
        for k in range(counts.shape[1]):
            count = counts[s, k]
            if count > 0:
                for t in range(low, high):
                    alpha[k, t] += count * weight[t]


@_compiled
def _log_likelihood(alpha: Floats, held_out: Floats, start: int, end: int) -> float:
    """Give the log-likelihood of held-out counts, their distributions alpha over its sum."""
    score = 0.0
    for t in range(start, end):
        total = 0.0
        for k in range(len(alpha)):
            total += alpha[k, t]
        for k in range(len(alpha)):
            if held_out[t, k] > 0:
                score += held_out[t, k] * math.log(alpha[k, t] / total)
    return score


@_compiled
def held_out_scores(
    rows: Rows, held_out: Floats, segments: Integers, tables: Any, prior: float
) -> Floats:
    """Give the held-out log-likelihood of each segment by each table [segments, tables].

    Held-out counts are [rows, categories]; a segment is its rows start and end.
    """
    scores = np.empty((len(segments), len(tables)))
    alpha = np.empty((held_out.shape[1], len(held_out)))
    for number in range(len(segments)):
        start, end = segments[number]
        for which in range(len(tables)):
            alpha[:, start:end] = prior
            _spread(rows, tables[which], start, end, alpha)
            scores[number, which] = _log_likelihood(alpha, held_out, start, end)
    return scores


@_compiled
def smooth(rows: Rows, at: Integers, segments: Integers, table: Floats, alpha: Floats) -> None:
    """Add smoothed counts at any positions to alpha [at, categories].

    Position `at[q]` lies in the segment of rows `segments[q]`, start and end.
    """
    positions, counts = rows
    for q in range(len(at)):
        for s in range(segments[q, 0], segments[q, 1]):
            distance = abs(at[q] - positions[s])
            if distance < len(table):
                for k in range(counts.shape[1]):
                    alpha[q, k] += table[distance] * counts[s, k]

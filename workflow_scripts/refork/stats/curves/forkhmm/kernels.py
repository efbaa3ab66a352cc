"""Compiled kernels: hidden Markov chains over the states of one stick.

A chain has a node at every position. Between nodes it moves by the matrix of the step's level, and
stands still at level 0. States far below the largest are passed over: `support` holds the first and
the last state that matter.

A labelled chain has two states a node: o_t, and s_{t+1}, where the curve stands once the base token
is taken. At a split, o_t = p s + (1 − p) r: s and the outcome r of the other branches are drawn
together, given o_t. Elsewhere s_{t+1} = o_t.

All kernels stand in this file, for compiled code is kept until its own file changes.
"""

from collections import namedtuple
from typing import Any

import numba
import numpy as np

NEGLIGIBLE = 1e-8  # share of the largest state below which a state is passed over
_INVISIBLE = 1e-14  # likelihood below which a state contributes nothing to a sum

# Steps of a chain: the level between each two nodes, and the matrices of all levels
Steps = namedtuple("Steps", ("levels", "matrices", "transposed"))
# What splits know, see `labels.split_tables`
Split = namedtuple("Split", ("spikes", "scale", "cell", "share"))
# Of a labelled chain: likelihoods [nodes, states] of the draws of the base branch and of the
# others; the table of each node's split, -1 where there is none; all tables
LabelledDraws = namedtuple("LabelledDraws", ("base", "other", "table", "split"))
# Of a labelled chain: o_t before its draws and s_{t+1} behind them, both [nodes, states]; first
# and last state that matter, [nodes, 2, 2]
Filtered = namedtuple("Filtered", ("before", "after", "support"))

_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
# Adds up in an order of its own, which is always the same; nothing here is ever NaN.
_sum = numba.njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract", "reassoc", "nsz", "nnan"},
)


@_sum
def _move(matrix: Any, weights: Any, support: Any, reach: Any, out: Any) -> None:
    """Out = weights times matrix, from the states of `support` to those of `reach`; else 0."""
    out[:] = 0.0
    low, high = reach[0], reach[1] + 1
    within = out[low:high]
    for state in range(support[0], support[1] + 1):
        weight = weights[state]
        row = matrix[state, low:high]
        for to in range(high - low):
            within[to] += weight * row[to]


@_sum
def _normalise(weights: Any, support: Any) -> float:
    """Scale weights to 1, note which states matter, and give what the sum was."""
    count = weights.shape[0]
    total, top = 0.0, 0.0
    for state in range(count):
        total += weights[state]
        top = max(top, weights[state])
    scale = 1 / total
    for state in range(count):
        weights[state] *= scale
    least = NEGLIGIBLE * top / total
    first, last = 0, count - 1
    while first < last and weights[first] < least:
        first += 1
    while last > first and weights[last] < least:
        last -= 1
    support[0], support[1] = first, last
    return float(total)


@_sum
def _marginal(filtered: Any, future: Any, support: Any, out: Any) -> None:
    """Posterior of a node: what is known up to it times what comes after it."""
    out[:] = 0.0
    total = 0.0
    for state in range(support[0], support[1] + 1):
        out[state] = filtered[state] * future[state]
        total += out[state]
    scale = 1 / total
    for state in range(support[0], support[1] + 1):
        out[state] *= scale


@_sum
def _observe(future: Any, likelihood: Any, support: Any, out: Any) -> None:
    """Out = future times likelihood within the support, 0 elsewhere, scaled to sum to 1."""
    out[:] = 0.0
    total = 0.0
    for state in range(support[0], support[1] + 1):
        out[state] = future[state] * likelihood[state]
        total += out[state]
    scale = 1 / total
    for state in range(support[0], support[1] + 1):
        out[state] *= scale


@_compiled
def _pick(cumulated: Any, support: Any, uniform: float) -> int:
    """Draw a state by its weight: the first whose cumulated weight exceeds uniform · total."""
    low, high = support[0], support[1]
    wanted = uniform * cumulated[high]
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return int(low)


@_compiled
def _cumulate_leading(filtered: Any, row: Any, support: Any, out: Any) -> None:
    """Out = cumulated weights of the states that lead to the state whose row is given."""
    total = 0.0
    for state in range(support[0], support[1] + 1):
        total += filtered[state] * row[state]
        out[state] = total


@_compiled
def filter_chain(likelihood: Any, steps: Any, start: Any, filtered: Any, support: Any) -> float:
    """Run forwards: p(state | draws up to the node), and the log-evidence of all draws.

    likelihood, filtered [nodes, states]; support [nodes, 2].
    """
    evidence, everywhere = 0.0, (0, likelihood.shape[1] - 1)
    for node in range(likelihood.shape[0]):
        level = steps.levels[node - 1] if node else 0
        now = filtered[node]
        if level:
            _move(steps.matrices[level], filtered[node - 1], support[node - 1], everywhere, now)
        else:
            now[:] = filtered[node - 1] if node else start
        now *= likelihood[node]
        evidence += np.log(_normalise(now, support[node]))
    return evidence


@_compiled
def smooth_chain(likelihood: Any, steps: Any, filtered: Any, support: Any, posterior: Any) -> None:
    """Run backwards: p(state | all draws) of every node into posterior [nodes, states]."""
    nodes, states = likelihood.shape
    future, seen = np.ones(states), np.empty(states)
    for node in range(nodes - 1, -1, -1):
        _marginal(filtered[node], future, support[node], posterior[node])
        _observe(future, likelihood[node], support[node], seen)
        if node and steps.levels[node - 1]:
            matrix = steps.transposed[steps.levels[node - 1]]
            _move(matrix, seen, support[node], support[node - 1], future)
        else:
            future[:] = seen


@_compiled
def _draw_node(filtered: Any, row: Any, support: Any, uniforms: Any, drawn: Any) -> None:
    """Replace the states drawn at the next node by states of this one; row [next, this].

    What leads to a state is worked out once, however many draws have come to it.
    """
    states = filtered.shape[0]
    leading, worked_out = np.empty((states, states)), np.zeros(states, np.bool_)
    for draw in range(drawn.shape[0]):
        after = drawn[draw]
        if not worked_out[after]:
            worked_out[after] = True
            _cumulate_leading(filtered, row[after], support, leading[after])
        drawn[draw] = _pick(leading[after], support, uniforms[draw])


@_compiled
def draw_chain(steps: Any, filtered: Any, support: Any, uniforms: Any, drawn: Any) -> None:
    """Draw whole chains from the posterior, last node first; uniforms, drawn [nodes, draws]."""
    nodes, states = filtered.shape
    anything = np.ones((states, states))
    state = np.zeros(drawn.shape[1], np.int64)
    for node in range(nodes - 1, -1, -1):
        last = node == nodes - 1
        if last:
            _draw_node(filtered[node], anything, support[node], uniforms[node], state)
        elif steps.levels[node]:
            row = steps.transposed[steps.levels[node]]
            _draw_node(filtered[node], row, support[node], uniforms[node], state)
        drawn[node] = state


@_sum
def _take_base(seen: Any, node: int, before: Any, after: Any) -> None:
    """p(s) from p(o) at a split: sum_r spikes[s, r] other[r] p(o = p s + (1 - p) r) / scale[o].

    o lies between two states, a `share` of the way, and its density is read between them.
    """
    split, table = seen.split, seen.table[node]
    base, other = seen.base[node], seen.other[node]
    density = before / split.scale[table]
    for state in range(before.shape[0]):
        after[state] = 0.0
        if base[state] > _INVISIBLE:
            cell, share = split.cell[table, state], split.share[table, state]
            spikes = split.spikes[state]
            total = 0.0
            for rest in range(before.shape[0]):
                low, high = density[cell[rest]], density[cell[rest] + 1]
                total += spikes[rest] * other[rest] * (low + (high - low) * share[rest])
            after[state] = total * base[state]


@_sum
def _before_base(seen: Any, node: int, state: int, weight: float, out: Any) -> None:
    """Add to out[o] the weight of every r that may stand beside the base branch at `state`."""
    split, table, other = seen.split, seen.table[node], seen.other[node]
    cell, share = split.cell[table, state], split.share[table, state]
    spikes = split.spikes[state]
    for rest in range(out.shape[0]):
        part = weight * spikes[rest] * other[rest]
        beyond = part * share[rest]
        out[cell[rest]] += part - beyond
        out[cell[rest] + 1] += beyond


@_compiled
def filter_labelled(seen: Any, steps: Any, start: Any, filtered: Any) -> float:
    """Run forwards over o_t and s_{t+1}; give the log-evidence of all draws."""
    evidence, everywhere = 0.0, (0, seen.base.shape[1] - 1)
    for node in range(seen.base.shape[0]):
        level = steps.levels[node - 1] if node else 0
        before, after = filtered.before[node], filtered.after[node]
        support = filtered.support[node]
        if level:
            came_from = filtered.support[node - 1, 1]
            _move(steps.matrices[level], filtered.after[node - 1], came_from, everywhere, before)
        else:
            before[:] = filtered.after[node - 1] if node else start
        _normalise(before, support[0])
        if seen.table[node] < 0:
            after[:] = before * seen.base[node]
        else:
            _take_base(seen, node, before, after)
        evidence += np.log(_normalise(after, support[1]))
    return evidence


@_compiled
def smooth_labelled(
    seen: Any, steps: Any, filtered: Any, posterior: Any, posterior_after: Any
) -> None:
    """Run backwards: p(o_t | all draws) and p(s_{t+1} | all draws), both [nodes, states]."""
    nodes, states = seen.base.shape
    future, now = np.ones(states), np.empty(states)
    for node in range(nodes - 1, -1, -1):
        at_before, at_after = filtered.support[node]
        _marginal(filtered.after[node], future, at_after, posterior_after[node])
        _observe(future, seen.base[node], at_after, now)
        table = seen.table[node]
        if table < 0:
            future[:] = now
        else:
            future[:] = 0.0
            for state in range(at_after[0], at_after[1] + 1):
                _before_base(seen, node, state, now[state], future)
            future /= seen.split.scale[table]
        _marginal(filtered.before[node], future, at_before, posterior[node])
        if node and steps.levels[node - 1]:
            now[:] = future
            matrix = steps.transposed[steps.levels[node - 1]]
            _move(matrix, now, at_before, filtered.support[node - 1, 1], future)


@_compiled
def draw_labelled(seen: Any, steps: Any, filtered: Any, uniforms: Any, drawn: Any) -> None:
    """Draw whole chains o_t from the posterior: uniforms [nodes, 2, draws], drawn [nodes, draws].

    s_{t+1} first, as a state of a plain chain; at a split, o_t given s_{t+1} then.
    """
    nodes, states = seen.base.shape
    row = np.ones((states, states))
    state = np.zeros(drawn.shape[1], np.int64)
    for node in range(nodes - 1, -1, -1):
        last = node == nodes - 1
        if last or steps.levels[node]:
            if not last:
                row[:] = steps.transposed[steps.levels[node]]
            support = filtered.support[node, 1]
            _draw_node(filtered.after[node], row, support, uniforms[node, 0], state)
        if seen.table[node] >= 0:
            row[:] = 0.0
            for base in range(states):
                _before_base(seen, node, base, 1.0, row[base])
            row /= seen.split.scale[seen.table[node]]
            support = filtered.support[node, 0]
            _draw_node(filtered.before[node], row, support, uniforms[node, 1], state)
        drawn[node] = state

"""Greedy probes: how far a pass is from the reference before any draw (arXiv 2606.15621)."""

from dataclasses import dataclass

import numpy as np

from refork.stats.credit import Floats, Integers
from refork.stats.missing import Missing, Quantity

UNKNOWN = -1
"""A yes-or-no column is int8: 1, 0, or this where it was not recorded."""


@dataclass(frozen=True)
class Probes:
    """Divergence and distance of one pass's probes from the reference's.

    A delta is the largest |Δ first log-probability| over the arms, in nat; bit-exact means that it
    is 0. The median is the upper one where there are two.
    """

    divergence_rate: Quantity
    bit_exact_rate: Quantity
    median_nonzero_delta: Quantity
    p90_delta: Quantity


def summarise_probes(diverged: Integers, delta: Floats) -> Probes:
    """Summarise one pass's probes.

    Parameters
    ----------
    diverged
        Shape (pivots,): whether the greedy tokens of an arm differ, or `UNKNOWN`.
    delta
        Shape (pivots,): nat, NaN where there is none.
    """
    probed = diverged[diverged != UNKNOWN]
    known = delta[~np.isnan(delta)]
    nonzero = known[known > 0]
    n = len(known)
    none = Missing("no greedy probes")
    return Probes(
        divergence_rate=float(probed.mean()) if len(probed) else none,
        bit_exact_rate=(n - len(nonzero)) / n if n else none,
        median_nonzero_delta=_ranked(
            nonzero, len(nonzero) // 2, "no probe differs at all" if n else none.reason
        ),
        p90_delta=_ranked(known, int(0.9 * n), none.reason),
    )


def _ranked(values: Floats, rank: int, reason: str) -> Quantity:
    """Give `sorted(values)[rank]`, an observed value, without sorting them all."""
    return float(np.partition(values, rank)[rank]) if len(values) else Missing(reason)

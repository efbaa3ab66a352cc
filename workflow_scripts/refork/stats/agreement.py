"""Which pivots two passes single out: critical tokens, and where eligibility comes from."""

from dataclasses import dataclass

import numpy as np

from refork.stats.credit import Integers, Mask
from refork.stats.missing import Missing, Quantity


@dataclass(frozen=True)
class EligibilitySources:
    """Eligible pivots by the passes in which their credit is not zero; the four add up."""

    reference: int
    treatment_only: int
    floor_only: int
    treatment_and_floor_only: int


def jaccard(one: Mask, other: Mask) -> Quantity:
    """Jaccard index |one ∩ other| / |one ∪ other| of two sets of pivots."""
    union = int(np.count_nonzero(one | other))
    if not union:
        return Missing("no critical token in either pass")
    return int(np.count_nonzero(one & other)) / union


def eligibility_sources(
    reference: Integers, floor: Integers, treatment: Integers
) -> EligibilitySources:
    """Count the eligible pivots by the passes, given as signs, that make them eligible."""
    silent = reference == 0
    by_treatment, by_floor = silent & (treatment != 0), silent & (floor != 0)
    return EligibilitySources(
        reference=int(np.count_nonzero(~silent)),
        treatment_only=int(np.count_nonzero(by_treatment & ~by_floor)),
        floor_only=int(np.count_nonzero(by_floor & ~by_treatment)),
        treatment_and_floor_only=int(np.count_nonzero(by_treatment & by_floor)),
    )

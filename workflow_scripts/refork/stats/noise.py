"""Replay noise of one comparison: a treatment beside its floor, both against the reference pass.

Source: arXiv 2606.15621. Rates are over the common set of the passes, Jaccards over all pivots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from refork.stats.agreement import EligibilitySources, eligibility_sources, jaccard
from refork.stats.credit import Credits, Floats, Integers, Mask, eligible
from refork.stats.flips import Flips, count_flips, pooled_excess
from refork.stats.inference import Bias, ClusteredExcess, McNemar, bias, clustered_excess, mcnemar
from refork.stats.missing import Missing, Quantity, share
from refork.stats.probes import UNKNOWN, Probes, summarise_probes

T = TypeVar("T")


@dataclass(frozen=True)
class PassMeasurements:
    """What one pass measured at every pivot; all of shape (pivots,).

    `cached` and `probe_diverged` hold 1, 0 or `UNKNOWN`; `probe_delta` is NaN where there is none.
    """

    credits: Credits
    cached: Integers
    probe_diverged: Integers
    probe_delta: Floats


@dataclass(frozen=True)
class Beside(Generic[T]):
    """A figure of the treatment, and the same of its floor."""

    treatment: T
    floor: T


@dataclass(frozen=True)
class PassFacts:
    """One pass by itself; `cached_share` is of the instrumented pivots."""

    nonzero: int
    mean_credit: Quantity
    instrumented: int
    cached_share: Quantity


@dataclass(frozen=True)
class CriticalTokens:
    """Agreement on the tokens with |Â| ≥ threshold, over all pivots; the floor's is the ceiling."""

    reference: int
    jaccard: Beside[Quantity]


@dataclass(frozen=True)
class ReplayNoise:
    """Every quantity of one comparison."""

    n_pivots: int
    n_problems: int
    eligible: int
    reference_facts: PassFacts
    facts: Beside[PassFacts]
    flips: Beside[Flips]
    excess: Quantity
    clustered: ClusteredExcess
    mcnemar: McNemar
    bias: Bias
    reference_nonzero: Beside[Flips]
    critical: dict[float, CriticalTokens]
    sources: EligibilitySources
    margin_split: float
    low_margin: Beside[Flips]
    high_margin: Beside[Flips]
    probed: int
    probes: Beside[Probes]


def measure(
    problem: Integers,
    margin: Floats,
    reference: PassMeasurements,
    treatment: PassMeasurements,
    floor: PassMeasurements,
    *,
    critical: Sequence[float] = (0.5, 0.75),
    margin_split: float = 0.3,
) -> ReplayNoise:
    """Measure the replay noise of one comparison.

    Parameters
    ----------
    problem
        Shape (pivots,): number of the pivot's problem, from 0, none left out.
    margin
        Shape (pivots,): nat between the two most probable tokens.
    reference, treatment, floor
        The three passes, over the same pivots in the same order.
    critical
        |Â| from which a token counts as critical.
    margin_split
        Nat; pivots below and above are told apart.
    """
    signs = reference.credits.sign, floor.credits.sign, treatment.credits.sign
    common = eligible(*signs)

    def beside(among: Mask) -> Beside[Flips]:
        return Beside(
            count_flips(signs[0], signs[2], among), count_flips(signs[0], signs[1], among)
        )

    flips = beside(common)
    flipped, floor_flipped = signs[2] != signs[0], signs[1] != signs[0]
    # In the precision that margins are stored in: a recorded 0.3 is not below 0.3.
    low = margin < margin.dtype.type(margin_split)
    probed = (treatment.probe_diverged != UNKNOWN) & (floor.probe_diverged != UNKNOWN)
    return ReplayNoise(
        n_pivots=len(problem),
        n_problems=int(problem.max()) + 1 if len(problem) else 0,
        eligible=flips.treatment.n,
        reference_facts=_facts(reference),
        facts=Beside(_facts(treatment), _facts(floor)),
        flips=flips,
        excess=pooled_excess(flips.treatment, flips.floor),
        clustered=clustered_excess(flipped, floor_flipped, common, problem),
        mcnemar=mcnemar(flipped, floor_flipped, common),
        bias=bias(reference.credits.value, treatment.credits.value, common),
        reference_nonzero=beside(signs[0] != 0),
        critical={
            threshold: _critical_tokens(threshold, reference, treatment, floor)
            for threshold in critical
        },
        sources=eligibility_sources(*signs),
        margin_split=margin_split,
        low_margin=beside(common & low),
        high_margin=beside(common & ~low),
        probed=int(np.count_nonzero(probed)),
        probes=Beside(_probes(treatment, probed), _probes(floor, probed)),
    )


def _facts(measured: PassMeasurements) -> PassFacts:
    instrumented = int(np.count_nonzero(measured.cached != UNKNOWN))
    value = measured.credits.value
    return PassFacts(
        nonzero=int(np.count_nonzero(measured.credits.sign)),
        mean_credit=float(value.mean()) if len(value) else Missing("no pivots"),
        instrumented=instrumented,
        cached_share=share(
            int(np.count_nonzero(measured.cached == 1)), instrumented, "record of cached tokens"
        ),
    )


def _critical_tokens(
    threshold: float,
    reference: PassMeasurements,
    treatment: PassMeasurements,
    floor: PassMeasurements,
) -> CriticalTokens:
    critical = reference.credits.reaches(threshold)
    return CriticalTokens(
        reference=int(np.count_nonzero(critical)),
        jaccard=Beside(
            jaccard(critical, treatment.credits.reaches(threshold)),
            jaccard(critical, floor.credits.reaches(threshold)),
        ),
    )


def _probes(measured: PassMeasurements, probed: Mask) -> Probes:
    return summarise_probes(measured.probe_diverged[probed], measured.probe_delta[probed])

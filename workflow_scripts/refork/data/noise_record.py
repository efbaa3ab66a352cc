"""The noise of a comparison as one JSON object and as a flat table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from refork.data.schemas import NOISE
from refork.stats.flips import Flips
from refork.stats.missing import Missing
from refork.stats.noise import Beside, Noise, PassFacts
from refork.stats.probes import Probes

# What the published records of the paper call the passes whose names differ from ours.
_PUBLISHED_NAMES = {"exact": "exact1", "replica": "exact2"}


@dataclass(frozen=True)
class Comparison:
    """Names of the three passes of a comparison."""

    reference: str
    treatment: str
    floor: str

    @property
    def label(self) -> str:
        """Name of the comparison in tables."""
        return f"{self.treatment}/{self.floor}"


def noise_record(noise: Noise, names: Comparison) -> dict[str, Any]:
    """Give the JSON object of a comparison.

    What does not exist is null, and `reasons` says why under its path, keys joined by `/`. Sub-keys of
    eligibility_sources, margin_buckets and probes are those of the published values.
    """
    treatment, floor = names.treatment, names.floor
    reasons: dict[str, str] = {}
    record = {
        "n_pivots": noise.n_pivots,
        "n_problems": noise.n_problems,
        "eligible": noise.eligible,
        "passes": {
            names.reference: _pass_facts("reference", noise.reference_facts),
            floor: _pass_facts("floor", noise.facts.floor),
            treatment: _pass_facts("treatment", noise.facts.treatment),
        },
        **_flips_beside(noise.flips, treatment, floor),
        "excess_pp": _times(100, noise.excess),
        "clustered_mean": noise.clustered.mean,
        "clustered_t": noise.clustered.t,
        "problems": {
            "eligible": noise.clustered.problems,
            "worse": noise.clustered.worse,
            "better": noise.clustered.better,
            "equal": noise.clustered.equal,
        },
        "mcnemar_z": noise.mcnemar.z,
        "mcnemar": {"b": noise.mcnemar.treatment_only, "c": noise.mcnemar.floor_only},
        "bias": asdict(noise.bias) | _quantities(noise.bias, ("mean", "t", "low", "high")),
        "exact_nonzero": {
            "n": noise.reference_nonzero.treatment.n,
            treatment: noise.reference_nonzero.treatment.flips,
            floor: noise.reference_nonzero.floor.flips,
        },
        "exact_nonzero_flips": _flips_beside(noise.reference_nonzero, treatment, floor),
        "jaccard": {
            f"{threshold:g}": {
                "n_reference": critical.reference,
                treatment: critical.jaccard.treatment,
                floor: critical.jaccard.floor,
            }
            for threshold, critical in noise.critical.items()
        },
        "eligibility_sources": _sources(noise, names),
        "margin_buckets": {
            f"margin_lt_{noise.margin_split:g}": _flips_beside(noise.low_margin, treatment),
            f"margin_ge_{noise.margin_split:g}": _flips_beside(noise.high_margin, treatment),
        },
        "probes": {
            "n_pivots": noise.probed,
            _published(treatment): _probes(noise.probes.treatment),
            _published(floor): _probes(noise.probes.floor),
        },
    }
    return _without_missing(record, "", reasons) | {"reasons": reasons}

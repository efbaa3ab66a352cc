"""The noise of a comparison as one JSON object and as a flat table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from refork.data.schemas import NOISE
from refork.data.tables import from_rows
from refork.errors import ReforkError
from refork.stats.flips import Flips
from refork.stats.inference import Bias, ClusteredExcess
from refork.stats.missing import Missing, Quantity
from refork.stats.noise import Beside, CriticalTokens, PassFacts, ReplayNoise
from refork.stats.probes import Probes

# What the published records of the paper call the passes whose names differ from ours.
_PUBLISHED = {"exact": "exact1", "replica": "exact2"}

RECORD_KEYS = frozenset(
    {
        *("n_pivots", "n_problems", "eligible", "passes", "excess_pp", "clustered_mean"),
        *("clustered_t", "problems", "mcnemar_z", "mcnemar", "bias", "exact_nonzero"),
        *("exact_nonzero_flips", "jaccard", "eligibility_sources", "margin_buckets"),
        *("probes", "reasons", "reference", "treatment", "floor", "n", "n_reference"),
        *_PUBLISHED.values(),
    }
)
"""Keys that stand beside the names of treatment and floor; no pass may be named like one."""


@dataclass(frozen=True)
class ComparedPasses:
    """Names of the three passes of a comparison, all different."""

    reference: str
    treatment: str
    floor: str

    def __post_init__(self) -> None:
        """Refuse a pass that stands beside itself."""
        names = [self.reference, self.treatment, self.floor]
        if len(set(names)) < 3:
            raise ReforkError(
                f"reference, treatment and floor are {', '.join(names)}: they must be three passes"
            )

    @property
    def label(self) -> str:
        """Name of the comparison in tables."""
        return f"{self.treatment}/{self.floor}"


def published_name(name: str) -> str:
    """Return what the published records call a pass of ours."""
    return _PUBLISHED.get(name, name)


def noise_record(noise: ReplayNoise, names: ComparedPasses) -> dict[str, Any]:
    """Give the JSON object of a comparison.

    What does not exist is null, and `reasons` says why under its path, keys joined by `/`. The
    sub-keys of eligibility_sources, margin_buckets and probes are those of the published values.
    """
    treatment, floor = names.treatment, names.floor
    split = f"{noise.margin_split:g}"
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
        "excess_pp": _points(noise.excess),
        "clustered_mean": noise.clustered.mean,
        "clustered_t": noise.clustered.t,
        "problems": _problems(noise.clustered),
        "mcnemar_z": noise.mcnemar.z,
        "mcnemar": {"b": noise.mcnemar.treatment_only, "c": noise.mcnemar.floor_only},
        "bias": _bias(noise.bias),
        "exact_nonzero": {
            "n": noise.reference_nonzero.treatment.n,
            treatment: noise.reference_nonzero.treatment.flips,
            floor: noise.reference_nonzero.floor.flips,
        },
        "exact_nonzero_flips": _flips_beside(noise.reference_nonzero, treatment, floor),
        "jaccard": {
            f"{threshold:g}": _critical_tokens(critical, treatment, floor)
            for threshold, critical in noise.critical.items()
        },
        "eligibility_sources": _sources(noise, names),
        "margin_buckets": {
            f"margin_lt_{split}": _flips_beside(noise.low_margin, treatment, "floor"),
            f"margin_ge_{split}": _flips_beside(noise.high_margin, treatment, "floor"),
        },
        "probes": {
            "n_pivots": noise.probed,
            published_name(treatment): _probes(noise.probes.treatment),
            published_name(floor): _probes(noise.probes.floor),
        },
    }
    leaves = dict(_leaves(record))
    reasons = {path: leaf.reason for path, leaf in leaves.items() if isinstance(leaf, Missing)}
    return {**_nulled(record), "reasons": reasons}


def noise_table(records: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    """Flatten noise records, by their comparison's label, to `data.schemas.NOISE`."""
    rows = [
        {
            "comparison": label,
            "quantity": path,
            "value": None if value is None else float(value),
            "reason": record["reasons"].get(path),
        }
        for label, record in records.items()
        for path, value in _leaves({key: record[key] for key in record if key != "reasons"})
        if not isinstance(value, str)
    ]
    return from_rows(rows, NOISE)


def _points(excess: Quantity) -> Quantity:
    return excess if isinstance(excess, Missing) else 100 * excess


def _pass_facts(role: str, facts: PassFacts) -> dict[str, Any]:
    return {
        "role": role,
        "nonzero": facts.nonzero,
        "mean_credit": facts.mean_credit,
        "instrumented": facts.instrumented,
        "cached_share": facts.cached_share,
    }


def _flips_beside(flips: Beside[Flips], treatment: str, floor: str) -> dict[str, Any]:
    return {treatment: _flips(flips.treatment), floor: _flips(flips.floor)}


def _flips(flips: Flips) -> dict[str, Any]:
    return {
        "n": flips.n,
        "flips": flips.flips,
        "flip_rate": flips.flip_rate,
        "zero_crossings": flips.zero_crossings,
        "polarity_reversals": flips.polarity_reversals,
        "polarity_rate": flips.polarity_rate,
    }


def _problems(clustered: ClusteredExcess) -> dict[str, int]:
    return {
        "eligible": clustered.problems,
        "worse": clustered.worse,
        "better": clustered.better,
        "equal": clustered.equal,
    }


def _bias(bias: Bias) -> dict[str, Any]:
    return {"n": bias.n, "mean": bias.mean, "t": bias.t, "low": bias.low, "high": bias.high}


def _critical_tokens(critical: CriticalTokens, treatment: str, floor: str) -> dict[str, Any]:
    return {
        "n_reference": critical.reference,
        treatment: critical.jaccard.treatment,
        floor: critical.jaccard.floor,
    }


def _sources(noise: ReplayNoise, names: ComparedPasses) -> dict[str, int]:
    treatment, floor = published_name(names.treatment), published_name(names.floor)
    return {
        f"{published_name(names.reference)}_nonzero": noise.sources.reference,
        f"only_{treatment}_nonzero": noise.sources.treatment_only,
        f"only_{floor}_nonzero": noise.sources.floor_only,
        f"only_{treatment}_and_{floor}_nonzero": noise.sources.treatment_and_floor_only,
    }


def _probes(probes: Probes) -> dict[str, Any]:
    return {
        "divergence_rate": probes.divergence_rate,
        "bit_exact_rate": probes.bit_exact_rate,
        "median_nonzero_delta": probes.median_nonzero_delta,
        "p90_delta": probes.p90_delta,
    }


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}/")
        else:
            yield f"{path}{key}", value


def _nulled(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _nulled(value) for key, value in tree.items()}
    return None if isinstance(tree, Missing) else tree

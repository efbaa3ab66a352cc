"""The noise table of a variant: a row a quantity, the treatment beside its floor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from refork.report.study_data import VariantData
from refork.report.summary import ROLES, Role, Summary
from refork.report.wording import MISSING, count_and_rate, decimal, percent, signed, small, whole


@dataclass(frozen=True)
class Cell:
    """What stands in the table for one comparison: of both passes together, or of each."""

    texts: tuple[str, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoiseRow:
    """One quantity over all comparisons; `detail` rows are parts of the row above."""

    label: str
    cells: tuple[Cell, ...]
    detail: bool = False


_Format = Callable[[Any], str]


def noise_rows(variant: VariantData) -> list[NoiseRow]:
    """Lay out every quantity of every comparison of a variant."""
    summaries = variant.comparisons
    if not summaries:
        return []
    reference = summaries[0].names.reference

    def row(label: str, cell: Callable[[Summary], Cell], detail: bool = False) -> NoiseRow:
        return NoiseRow(label, tuple(cell(summary) for summary in summaries), detail)

    return [
        row("Eligible pivots", _eligible),
        row("Sign flips", _counts("flips")),
        row("zero crossings", _counts("zero_crossings"), detail=True),
        row("polarity reversals", _counts("polarity_reversals"), detail=True),
        row(f"Flips where credit is not 0 in {reference}", _counts("flips", "exact_nonzero_flips")),
        *(
            row(f"Flips, {_margin_words(bucket)}", _counts("flips", "margin_buckets", bucket))
            for bucket in summaries[0].value("margin_buckets")
        ),
        row("Excess of flips, pooled", _one(_points, "excess_pp")),
        row(
            "Excess of flips, mean of problems", _one(lambda x: _points(100 * x), "clustered_mean")
        ),
        row("t of that mean", _one(decimal, "clustered_t"), detail=True),
        row("problems worse, better, equal", _problems, detail=True),
        row("McNemar z", _one(decimal, "mcnemar_z")),
        row("Bias of credit, 95 % interval", _bias),
        *(
            row(f"Jaccard of tokens with |credit| ≥ {threshold}", _jaccard(threshold))
            for threshold in summaries[0].value("jaccard")
        ),
        row("Greedy probes that differ", _probe(percent, "divergence_rate")),
        row("first log-probability bit-exact", _probe(percent, "bit_exact_rate"), detail=True),
        row("90th percentile of its |Δ| (nat)", _probe(small, "p90_delta"), detail=True),
    ]


def missing_reasons(rows: list[NoiseRow]) -> list[str]:
    """Return why cells are empty, each reason once with the rows it is given for."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        for reason in sorted({reason for cell in row.cells for reason in cell.reasons}):
            labels.setdefault(reason, []).append(row.label)
    return [f"{'; '.join(names)}: {reason}" for reason, names in labels.items()]


def _eligible(summary: Summary) -> Cell:
    among, problems = summary.value("problems", "eligible"), summary.value("n_problems")
    return Cell(
        (
            f"{whole(summary.eligible)} of {whole(summary.n_pivots)}, "
            f"in {whole(among)} of {whole(problems)} problems",
        )
    )


def _counts(kind: str, *path: str) -> Callable[[Summary], Cell]:
    def cell(summary: Summary) -> Cell:
        found = [summary.flips(role, *path) for role in ROLES]
        return Cell(tuple(count_and_rate(flips[kind], flips["n"]) for flips in found))

    return cell


def _one(as_text: _Format, key: str) -> Callable[[Summary], Cell]:
    def cell(summary: Summary) -> Cell:
        value = summary.value(key)
        if value is None:
            return Cell((MISSING,), (summary.reason(key),))
        return Cell((as_text(value),))

    return cell


def _problems(summary: Summary) -> Cell:
    problems = summary.value("problems")
    return Cell((", ".join(whole(problems[key]) for key in ("worse", "better", "equal")),))


def _bias(summary: Summary) -> Cell:
    bias: Mapping[str, Any] = summary.value("bias")
    if bias["mean"] is None:
        return Cell((MISSING,), (summary.reason("bias", "mean"),))
    if bias["low"] is None:
        return Cell((signed(bias["mean"], 3),), (summary.reason("bias", "low"),))
    return Cell(
        (f"{signed(bias['mean'], 3)} [{decimal(bias['low'], 3)}, {decimal(bias['high'], 3)}]",)
    )


def _jaccard(threshold: str) -> Callable[[Summary], Cell]:
    def cell(summary: Summary) -> Cell:
        path = ("jaccard", threshold)
        return _beside(
            decimal,
            lambda role: summary.part(role, *path),
            lambda role: summary.part_reason(role, *path),
        )

    return cell


def _probe(as_text: _Format, key: str) -> Callable[[Summary], Cell]:
    def cell(summary: Summary) -> Cell:
        return _beside(
            as_text,
            lambda role: summary.part(role, "probes")[key],
            lambda role: summary.part_reason(role, "probes", key=key),
        )

    return cell


def _beside(
    as_text: _Format, value_of: Callable[[Role], Any], reason_of: Callable[[Role], str]
) -> Cell:
    values = {role: value_of(role) for role in ROLES}
    return Cell(
        tuple(MISSING if value is None else as_text(value) for value in values.values()),
        tuple(reason_of(role) for role, value in values.items() if value is None),
    )


def _points(points: float) -> str:
    return f"{signed(points, 1)} pp"


def _margin_words(bucket: str) -> str:
    _, relation, split = bucket.split("_")
    return f"margin {'<' if relation == 'lt' else '≥'} {split} nat"

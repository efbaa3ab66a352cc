"""The answer of a study: one sentence a comparison of every variant."""

from refork.report.study_data import VariantData
from refork.report.summary import Summary
from refork.report.wording import decimal, floor_in_words, percent, treatment_in_words, whole


def answer(variant: VariantData, summary: Summary) -> str:
    """Say in one sentence how much a treatment changes, and how much the floor does already."""
    passes = {item["name"]: item for item in variant.passes}
    subject = treatment_in_words(passes[summary.names.treatment])
    floor = floor_in_words(passes[summary.names.floor])
    eligible = summary.eligible
    if not summary.n_pivots:
        return "Nothing was measured: there is no pivot."
    if not eligible:
        return (
            f"Nothing can flip: credit is 0 at all {whole(summary.n_pivots)} pivots, "
            f"in the reference, in {floor} and after {subject}."
        )
    where = f"the {whole(eligible)} eligible pivots" if eligible > 1 else "the one eligible pivot"
    flips = summary.flips("treatment")
    treated, floored = flips["flips"], summary.flips("floor")["flips"]
    if not treated and not floored:
        if eligible == 1:
            return f"No flip: {subject} keeps the sign of credit at {where}, and so does {floor}."
        return (
            f"No flip: {subject} changes the sign of credit at none of {where}, "
            f"and neither does {floor}."
        )
    return (
        f"{subject[0].upper()}{subject[1:]} changes the sign of credit at "
        f"{percent(treated / eligible, 0)} of {where} ({whole(flips['zero_crossings'])} to or "
        f"from 0, {whole(flips['polarity_reversals'])} reversed); "
        f"{percent(floored / eligible, 0)} already change in {floor}: {_excess(summary)}."
    )


def _excess(summary: Summary) -> str:
    pooled = f"{_article(summary.value('excess_pp'))} pooled"
    clustered, t = summary.value("clustered_mean"), summary.value("clustered_t")
    problems = summary.value("problems", "eligible")
    over = f"over {whole(problems)} problems" if problems > 1 else "in one problem"
    if clustered is None:
        return f"{pooled} (none by problem: {summary.reason('clustered_mean')})"
    by_problem = f"{pooled}, {_points(100 * clustered)} by problem"
    if t is None:
        return f"{by_problem} {over} (no t: {summary.reason('clustered_t')})"
    return f"{by_problem}, t = {decimal(t, 1)} {over}"


def _article(points: float) -> str:
    said = f"{_points(points)} point" + ("" if _points(points) == "1" else "s")
    return f"an excess of {said}" if abs(points) > 1e-9 else "no excess"


def _points(points: float) -> str:
    """Return percentage points, small ones with a decimal."""
    return decimal(points, 0 if abs(points) >= 9.5 else 1).removesuffix(".0")

"""The report's page: one HTML text that needs nothing but itself."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from refork.data.probe_record import WAYS
from refork.report import wording
from refork.report.answer import answer
from refork.report.completions import completions
from refork.report.curve_section import CurveSection
from refork.report.figures import NamedFigure
from refork.report.frames import CROSSING, REVERSAL
from refork.report.marked import MarkedRollout
from refork.report.noise_rows import missing_reasons, noise_rows
from refork.report.pass_rows import pass_rows
from refork.report.provenance import (
    differences,
    fingerprints,
    flattened,
    stage_costs,
    versions,
    whole_yaml,
)
from refork.report.study_data import Look, StudyData, VariantData
from refork.report.style import colours_of, inline_svg, svg_bytes
from refork.report.visible import finalize

# A page that may load nothing and run nothing, whatever a model wrote into it.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def render_page(
    study: StudyData,
    look: Look,
    figures: list[NamedFigure],
    marked: MarkedRollout | None,
    curves: CurveSection | None = None,
) -> str:
    """Render a study, its figures, marked rollout and curves as one self-contained HTML text."""
    page: str = (
        _templates()
        .get_template("report.html.j2")
        .render(
            title=look.title or study.name,
            policy=CONTENT_POLICY,
            colours=colours_of(look.palette),
            study=study,
            size=_sizes(study),
            several=len(study.variants) > 1,
            answers={
                variant.name: [answer(variant, summary) for summary in variant.comparisons]
                for variant in study.variants
            },
            completions={variant.name: completions(variant) for variant in study.variants},
            pass_rows={variant.name: pass_rows(variant) for variant in study.variants},
            noise={variant.name: noise_rows(variant) for variant in study.variants},
            missing_reasons=missing_reasons,
            figures=[
                (item, inline_svg(svg_bytes(item.figure), item.name, item.title))
                for item in figures
            ],
            marked=marked,
            curves=curves,
            crossing=CROSSING,
            reversal=REVERSAL,
            study_differences=differences(study.settings, study.defaults),
            variant_differences={
                variant.name: differences(variant.settings, study.settings)
                for variant in study.variants
            },
            whole_settings={
                variant.name: whole_yaml(variant.settings) for variant in study.variants
            },
            ways=WAYS,
            lock=flattened(study.lock),
            fingerprints=fingerprints(study),
            costs=[cost for variant in study.variants for cost in stage_costs(variant)],
            versions=versions(),
        )
    )
    return page


def _sizes(study: StudyData) -> str:
    """Say how much was measured: once where all variants agree."""
    sizes = {variant.name: _size(variant) for variant in study.variants}
    if len(set(sizes.values())) == 1:
        return _size(study.variants[0])
    return " · ".join(f"{name}: {size}" for name, size in sizes.items())


def _size(variant: VariantData) -> str:
    questions = len(variant.questions["question_id"].unique())
    counts = {
        "question": questions,
        "rollout": variant.rollouts.num_rows,
        "pivot": variant.pivots.num_rows,
    }
    return ", ".join(
        f"{wording.whole(count)} {what}{'' if count == 1 else 's'}"
        for what, count in counts.items()
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("refork.report"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("percent", "count_and_rate", "whole", "decimal", "signed", "small")
    environment.filters.update({name: getattr(wording, name) for name in names})
    return environment

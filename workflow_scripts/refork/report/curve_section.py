"""What the page says of outcome curves: a part for each variant that has them, then survival."""

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from refork.report.curve_forks import fork_survival
from refork.report.curve_rows import (
    CurveSize,
    Score,
    ShownCurve,
    curve_sizes,
    scores,
)
from refork.report.figures import NamedFigure
from refork.report.study_data import StudyData, VariantData
from refork.report.style import inline_svg, svg_bytes
from refork.report.wording import percent, whole

Drawn = tuple[NamedFigure, Markup]


@dataclass(frozen=True)
class CurvePart:
    """The curves of one variant; `figure` null where no rollout has a curve."""

    name: str
    sizes: tuple[CurveSize, ...]
    size: str
    epsilons: tuple[float, ...]
    least: float
    shown: tuple[ShownCurve, ...]
    figure: Drawn | None
    scores: tuple[Score, ...]
    how: str
    folds: int
    left_out: tuple[tuple[str, int, str], ...]
    bars: bool

    @property
    def hidden(self) -> int:
        """Curves that stand in the tables alone."""
        return len(self.sizes) - len(self.shown)


@dataclass(frozen=True)
class CurveSection:
    """All parts, and the survival of rollouts without a fork as a figure and in words."""

    parts: tuple[CurvePart, ...]
    survival: Drawn | None
    surviving: tuple[str, ...]


def curve_section(
    study: StudyData, shown: Mapping[str, list[ShownCurve]], figures: Mapping[str, NamedFigure]
) -> CurveSection | None:
    """Gather the section from its figures by variant; None where no variant has curves."""
    variants = [variant for variant in study.variants if variant.curves]
    if not variants:
        return None
    return CurveSection(
        parts=tuple(_part(one, shown[one.name], figures.get(one.name)) for one in variants),
        survival=_drawn(figures.get("")),
        surviving=tuple(
            sentence
            for one in variants
            for sentence in _surviving(one, several=len(study.variants) > 1)
        ),
    )


def _part(variant: VariantData, shown: list[ShownCurve], figure: NamedFigure | None) -> CurvePart:
    curves = variant.curves
    if curves is None:
        raise TypeError(f"variant {variant.name} has no curves")
    sizes = curve_sizes(variant)
    return CurvePart(
        name=variant.name,
        sizes=tuple(sizes),
        size=_in_words(sizes, curves.branches),
        epsilons=curves.epsilons,
        least=float(curves.smoothing["fork_probability"]),
        shown=tuple(shown),
        figure=_drawn(figure),
        scores=tuple(scores(variant)),
        how=curves.tuning.how,
        folds=curves.tuning.folds,
        left_out=tuple(
            (item.question_id, item.rollout, item.reason) for item in curves.tuning.left_out
        ),
        bars=curves.curves["low"].null_count < curves.curves.num_rows,
    )


def _in_words(sizes: list[CurveSize], branches: str) -> str:
    draws, tokens = (sum(getattr(one, name) for one in sizes) for name in ("draws", "tokens"))
    drawn, positions = (
        sum(getattr(one, name) for one in sizes) for name in ("positions_drawn", "positions")
    )
    how = {
        "mixture": "the branch of each drawn by its probability",
        "each": "every branch with draws of its own",
    }[branches]
    return (
        f"{_counted(len(sizes), 'curve')} from {_counted(draws, 'draw')} "
        f"({_counted(tokens, 'generated token')}) at {whole(drawn)} of "
        f"{_counted(positions, 'position')}, {how}."
    )


def _counted(count: int, what: str) -> str:
    return f"{whole(count)} {what}{'' if count == 1 else 's'}"


def _surviving(variant: VariantData, several: bool) -> list[str]:
    if variant.curves is None:
        return []
    pooled = fork_survival(variant.curves)
    where = f"{variant.name}: " if several else ""
    if not pooled:
        estimator = variant.curves.tuning.estimator
        return [f"{where}{estimator} gives no probability of forks, so there is no survival."]
    ends = ", ".join(
        f"{percent(float(one.surviving[-1]))} at ε = {epsilon:g}" for epsilon, one in pooled.items()
    )
    return [f"{where}No fork to the end: {ends}."]


def _drawn(figure: NamedFigure | None) -> Drawn | None:
    if figure is None:
        return None
    return figure, inline_svg(svg_bytes(figure.figure), figure.name, figure.title)

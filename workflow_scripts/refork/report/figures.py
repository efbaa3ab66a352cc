"""The figures of a study; each is drawn by one function, on axes of its own."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from refork.report.frames import FATES, comparison_frame, credit_frames
from refork.report.study_data import StudyData, VariantData
from refork.report.style import RULE, Colours, figure_style
from refork.report.summary import ROLES, Summary
from refork.report.visible import visible
from refork.report.wording import count_and_rate

_WIDTH = 7.4


@dataclass(frozen=True)
class NamedFigure:
    """A figure with its file name, and what it shows in words."""

    name: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class _Panel:
    title: str
    pivots: pd.DataFrame


def draw_figures(study: StudyData, colours: Colours) -> list[NamedFigure]:
    """Draw every figure of the report."""
    compared = [variant for variant in study.variants if variant.comparisons]
    if not compared:
        return []
    with figure_style():
        panels = _panels(compared)
        return [
            NamedFigure(
                "flips",
                "How often the sign of credit flips, with the floor beside it",
                "Share of eligible pivots whose credit has another sign than in the reference. "
                "The paler bar is the floor: the change that is there without the treatment.",
                _flips_figure(compared, colours),
            ),
            NamedFigure(
                "credit",
                "Credit of the same pivots, in the reference and in another pass",
                "Each disc is a pair of credits, its area the number of eligible pivots there; "
                "on the diagonal nothing changed.",
                _credit_figure(panels, colours),
            ),
            NamedFigure(
                "margins",
                "Margins of eligible pivots, flipped and not",
                "The margin is the gap between the two most probable tokens, in nat: whether flips "
                "gather where the model was undecided.",
                _margins_figure(panels, colours),
            ),
        ]


def _panels(variants: list[VariantData]) -> list[_Panel]:
    panels = []
    for variant in variants:
        frames = credit_frames(variant)
        for summary in variant.comparisons:
            pivots = comparison_frame(frames, summary)
            for role in ROLES:
                shown = pivots[pivots["role"] == role]
                title = (
                    f"{shortened(variant.name)}, n = {len(shown)}\n{shortened(summary.label(role))}"
                )
                panels.append(_Panel(title, shown))
    return panels


def _flips_figure(variants: list[VariantData], colours: Colours) -> Figure:
    bars = [_bars(variant.comparisons) for variant in variants]
    heights = [len(rows) for rows in bars]
    figure = Figure(figsize=(_WIDTH, 0.75 + 0.34 * sum(heights) + 0.42 * len(bars)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(
        len(bars), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    highest = max(rows["flips"].max() for rows in bars)
    for ax, rows, variant in zip(axes, bars, variants, strict=True):
        _draw_bars(ax, rows, colours)
        ax.set_title(shortened(variant.name), fontweight="bold")
    axes[-1].set_xlim(0, min(1.28, max(0.1, 1.35 * highest)))
    axes[-1].xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes[-1].set_xlabel("of eligible pivots")
    _legend(figure, colours, FATES[1:])
    return figure


def _bars(comparisons: tuple[Summary, ...]) -> pd.DataFrame:
    rows = [
        {
            "bar": f"{index}{role}",
            "label": shortened(summary.label(role)),
            "role": role,
            "flips": _rate(summary.flips(role)["flips"], summary.eligible),
            "reversals": _rate(summary.flips(role)["polarity_reversals"], summary.eligible),
            "said": count_and_rate(summary.flips(role)["flips"], summary.eligible),
        }
        for index, summary in enumerate(comparisons)
        for role in ROLES
    ]
    return pd.DataFrame(rows)


def _rate(count: int, of: int) -> float:
    return count / of if of else 0.0


def _draw_bars(ax: Axes, rows: pd.DataFrame, colours: Colours) -> None:
    for column, colour in (("flips", colours.crossing), ("reversals", colours.reversal)):
        sns.barplot(
            rows, x=column, y="bar", color=colour, saturation=1, width=0.68, errorbar=None, ax=ax
        )
    for row, crossings, reversals in zip(rows.itertuples(), *ax.containers, strict=True):
        crossings.set(x=row.reversals, width=row.flips - row.reversals)
        for bar in (crossings, reversals):
            bar.set_alpha(0.5 if row.role == "floor" else 1.0)
    for place, row in enumerate(rows.itertuples()):
        ax.annotate(
            str(row.said),
            (row.flips, place),
            (5, 0),
            textcoords="offset points",
            va="center",
            size=8.5,
        )
    ax.set_yticks(range(len(rows)), rows["label"])
    ax.set(xlabel="", ylabel="")
    ax.grid(False, axis="y")
    ax.spines["bottom"].set_visible(False)


def _credit_figure(panels: list[_Panel], colours: Colours) -> Figure:
    figure, axes = _grid(panels, height=2.05)
    pair = ["reference", "credit", "fate"]
    counts = [panel.pivots.groupby(pair, as_index=False).size() for panel in panels]
    largest = max((int(count["size"].max()) for count in counts if len(count)), default=1)
    for ax, panel, count in zip(axes, panels, counts, strict=True):
        ax.axline((0, 0), slope=1, color=RULE, linewidth=1, zorder=0)
        if len(count):
            sns.scatterplot(
                count.sort_values("size", ascending=False),
                x="reference",
                y="credit",
                hue="fate",
                palette=colours.by_fate,
                size="size",
                sizes=(6, 170),
                size_norm=(0, largest),
                linewidth=0,
                alpha=0.85,
                legend=False,
                ax=ax,
            )
        ax.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        ax.set(xlabel="credit, reference", ylabel="credit, this pass", aspect="equal")
        ax.set_title(panel.title)
        ax.label_outer()
    _legend(figure, colours, FATES)
    return figure


def _margins_figure(panels: list[_Panel], colours: Colours) -> Figure:
    figure, axes = _grid(panels, height=1.75)
    margins = [panel.pivots["margin"].max() for panel in panels if len(panel.pivots)]
    widest = float(np.ceil(10 * max(margins, default=1)) / 10)
    for ax, panel in zip(axes, panels, strict=True):
        if len(panel.pivots):
            sns.histplot(
                panel.pivots,
                x="margin",
                hue="fate",
                hue_order=FATES[::-1],
                palette=colours.by_fate,
                multiple="stack",
                bins=np.linspace(0, widest, 11).tolist(),
                alpha=1,
                linewidth=0,
                legend=False,
                ax=ax,
            )
        ax.set(xlabel="margin (nat)", ylabel="pivots", xlim=(0, widest))
        ax.set_title(panel.title)
        ax.set_xticks((0, widest / 2, widest))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.label_outer()
        ax.grid(False, axis="x")
    _legend(figure, colours, FATES)
    return figure


def _grid(panels: list[_Panel], height: float) -> tuple[Figure, list[Axes]]:
    # Panels come in pairs, a treatment and its floor: no row is left half empty.
    columns = 4 if len(panels) % 4 == 0 else 2
    rows = len(panels) // columns
    figure = Figure(figsize=(_WIDTH if columns == 4 else 0.66 * _WIDTH, height * rows + 0.6))
    figure.set_layout_engine("compressed")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return figure, axes.ravel().tolist()


def shortened(name: str, length: int = 25) -> str:
    """Return untrusted text as a label of a figure."""
    shown = visible(name)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def _legend(figure: Figure, colours: Colours, fates: tuple[str, ...]) -> None:
    handles = [
        Line2D([], [], linestyle="none", marker="o", color=colours.by_fate[fate], label=fate)
        for fate in fates
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, handletextpad=0.2)

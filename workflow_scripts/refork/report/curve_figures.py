"""The figures of outcome curves: those of a variant, and how long rollouts go without a fork."""

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from refork.report.curve_data import CurveData
from refork.report.curve_forks import ShownFork, fork_survival
from refork.report.curve_rows import ShownCurve
from refork.report.figures import NamedFigure, shortened
from refork.report.study_data import StudyData
from refork.report.style import RULE, colours_of, figure_style
from refork.report.wording import percent
from refork.stats.curves.forks import Survival
from refork.tasks.graders import OTHER, TRUNCATED

_WIDTH = 7.4
_BINS = 20
_LEFT = 0.05
"""Share of the rollouts below which a stretch says nothing of them."""
_DOTTED = 300
"""Positions up to which a curve is drawn with dots: every one is an element of the page."""
_DIGIT = 0.016  # width of a digit of a fork's number, of the axes' width


def draw_curve_figures(
    study: StudyData, shown: dict[str, list[ShownCurve]], palette: str
) -> dict[str, NamedFigure]:
    """Draw the curves shown of each variant, by its name, and under "" the survival of all."""
    variants = {item.name: item.curves for item in study.variants if item.curves}
    figures = {}
    with figure_style():
        for name, curves in variants.items():
            if shown[name]:
                caption = _caption(curves)
                figure = _curves_figure(curves, shown[name], palette)
                title = "Share of each outcome along the rollout"
                figures[name] = NamedFigure(f"curves-{name}", title, caption, figure)
        pooled = {name: fork_survival(curves) for name, curves in variants.items()}
        pooled = {name: by_epsilon for name, by_epsilon in pooled.items() if by_epsilon}
        if pooled:
            figures[""] = NamedFigure(
                "fork_survival",
                "How long rollouts go without a fork",
                "Left: rollouts that have had no fork yet. Right: the chance of a first fork in a "
                "stretch of tokens, for a rollout that has had none before; left out where fewer "
                f"than {percent(_LEFT, 0)} of them are left.",
                _survival_figure(pooled, palette),
            )
    return figures


def _caption(curves: CurveData) -> str:
    words = (
        "Line: the smoothed share. Dots: the share of the draws at a position, on curves with "
        f"draws at {_DOTTED} or fewer."
    )
    if curves.curves["low"].null_count < curves.curves.num_rows:
        words += f" Band: the {percent(curves.smoothing['level'], 0)} interval."
    return f"{words} Grey stretches with a number are forks."


def _curves_figure(curves: CurveData, shown: list[ShownCurve], palette: str) -> Figure:
    figure = Figure(figsize=(_WIDTH, 2.15 * len(shown) + 0.3))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for ax, item in zip(axes, shown, strict=True):
        _draw_curve(ax, curves, item, palette)
        _draw_forks(ax, item.forks)
        title = f"{shortened(item.key[0], 60)}, rollout {item.key[1]}"
        ax.set_title(title, pad=17 if item.forks else 6)
    axes[-1].set_xlabel("position (token)")
    return figure


def _draw_curve(ax: Axes, curves: CurveData, item: ShownCurve, palette: str) -> None:
    rows = curves.of("curves", item.key)
    labels = [one for one in item.outcomes if one not in (OTHER, TRUNCATED)]
    grey = colours_of(palette).kept
    coloured = dict(zip(labels, sns.color_palette(palette, len(labels)), strict=True))
    for outcome in item.outcomes:
        own = rows[rows["outcome"] == outcome].sort_values("position")
        colour = coloured.get(outcome, grey)
        ax.plot(
            own["position"],
            own["share"],
            color=colour,
            linewidth=1.6,
            linestyle="--" if outcome == TRUNCATED else "-",
            label=shortened(outcome, 14),
        )
        raw = own[own["raw"].notna()]
        if len(raw) <= _DOTTED:
            ax.scatter(raw["position"], raw["raw"], color=colour, s=5, alpha=0.45, linewidth=0)
        if own["low"].notna().all():
            low, high = own["low"].astype(float), own["high"].astype(float)
            ax.fill_between(own["position"], low, high, color=colour, alpha=0.2, linewidth=0)
    ax.set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1), xlim=_limits(rows["position"].to_numpy()))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.03), borderaxespad=0, handlelength=1.3)


def _limits(positions: np.ndarray) -> tuple[float, float]:
    return float(positions.min()) - 0.5, float(positions.max()) + 0.5


def _draw_forks(ax: Axes, forks: tuple[ShownFork, ...]) -> None:
    left, right = ax.get_xlim()
    for fork in forks:
        ax.axvspan(fork.first, fork.last, color=RULE, linewidth=0.8, zorder=0)
    centres = [((fork.first + fork.last) / 2 - left) / (right - left) for fork in forks]
    for place, text in number_labels(centres):
        ax.annotate(
            text,
            (place, 1.0),
            (0, 2),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            size=8,
        )


def number_labels(centres: list[float]) -> list[tuple[float, str]]:
    """Label marks by number, at rising places in [0, 1]; those that would touch share one."""
    groups: list[tuple[float, int, int]] = []
    for number, centre in enumerate(centres, start=1):
        groups.append((centre, number, number))
        while len(groups) > 1 and _touch(groups[-2], groups[-1]):
            (_, first, _), (_, _, last) = groups[-2:]
            middle = (centres[first - 1] + centres[last - 1]) / 2
            groups[-2:] = [(middle, first, last)]
    return [(place, _numbers(first, last)) for place, first, last in groups]


def _touch(one: tuple[float, int, int], other: tuple[float, int, int]) -> bool:
    characters = len(_numbers(*one[1:])) + len(_numbers(*other[1:]))
    return other[0] - one[0] < _DIGIT * (characters / 2 + 1)


def _numbers(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _survival_figure(pooled: dict[str, dict[float, Survival]], palette: str) -> Figure:
    figure = Figure(figsize=(_WIDTH, 2.2 * len(pooled) + 0.5))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(len(pooled), 2, squeeze=False)
    for (left, right), (name, by_epsilon) in zip(axes, pooled.items(), strict=True):
        colours = sns.color_palette(palette, len(by_epsilon))
        for colour, (epsilon, one) in zip(colours, by_epsilon.items(), strict=True):
            tokens = np.arange(len(one.surviving) + 1)
            surviving = np.concatenate([[1.0], one.surviving])
            left.plot(tokens, surviving, color=colour, label=f"ε = {epsilon:g}")
            edges, hazard = binned_hazard(one)
            hazard[one.at_risk[edges[:-1]] < _LEFT * one.at_risk[0]] = np.nan
            right.stairs(hazard, edges, color=colour, linewidth=1.4, baseline=None)
        left.set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1), ylabel="no fork yet")
        right.yaxis.set_major_locator(MaxNLocator(4))
        right.set_ylim(bottom=0)
        right.set_ylabel("first fork in the stretch")
        left.set_title(shortened(name), fontweight="bold")
        for ax in (left, right):
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            ax.set_xlim(0, max(len(one.hazard) for one in by_epsilon.values()))
    for ax in axes[-1]:
        ax.set_xlabel("generated tokens")
    handles, labels = max((row[0].get_legend_handles_labels() for row in axes), key=_number)
    figure.legend(handles, labels, loc="outside upper left", ncols=4, handlelength=1.3)
    return figure


def _number(of: tuple[list[object], list[str]]) -> int:
    return len(of[1])


def binned_hazard(one: Survival) -> tuple[np.ndarray, np.ndarray]:
    """Give the chance of a first fork in stretches of tokens, given none before them.

    Returns
    -------
    Edges of at most 20 stretches, shape (B + 1,), and their hazards, (B,): NaN where no rollout is
    left.
    """
    length = len(one.hazard)
    edges = np.unique(np.linspace(0, length, min(_BINS, length) + 1).round().astype(int))
    hazards = [
        1 - np.prod(1 - known) if (known := part[~np.isnan(part)]).size else np.nan
        for part in np.split(one.hazard, edges[1:-1])
    ]
    return edges, np.array(hazards)

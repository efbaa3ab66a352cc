"""How figures look, and how one becomes a file: the same bytes for the same data."""

import difflib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import seaborn as sns
from markupsafe import Markup
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from refork.errors import ReforkError
from refork.report.frames import CROSSING, KEPT, REVERSAL

INK = "#24282e"
RULE = "#d4d8de"
_KEPT = "#9aa3ae"  # reads on white and on black
_SOME_PALETTES = ("colorblind", "deep", "muted", "Set2", "tab10", "viridis", "flare")

_STYLE: Any = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 9,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "font.size": 9,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",
    "svg.hashsalt": "refork",
}


@dataclass(frozen=True)
class Colours:
    """The colour of each fate of a credit's sign, as #rrggbb."""

    kept: str
    crossing: str
    reversal: str

    @property
    def by_fate(self) -> dict[str, str]:
        """Colour of each fate."""
        return {KEPT: self.kept, CROSSING: self.crossing, REVERSAL: self.reversal}


def colours_of(palette: str) -> Colours:
    """Take the colours of a seaborn palette.

    Raises
    ------
    ReforkError
        No palette has that name.
    """
    try:
        first, second = sns.color_palette(palette, 2)
    except ValueError as error:
        near = difflib.get_close_matches(palette, [*_SOME_PALETTES, *mpl.colormaps], n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise ReforkError(
            f"report.palette: seaborn knows no palette `{palette}`; {hint}"
            f"valid are for example {', '.join(_SOME_PALETTES)}"
        ) from error
    return Colours(_KEPT, to_hex(first), to_hex(second))


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw figures in the report's style."""
    with mpl.rc_context(_STYLE):
        yield


def svg_bytes(figure: Figure) -> bytes:
    """Return a figure as an SVG file."""
    buffer = io.BytesIO()
    with figure_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as a PNG file on white."""
    buffer = io.BytesIO()
    with figure_style():
        figure.savefig(
            buffer, format="png", dpi=200, facecolor="white", metadata={"Software": None}
        )
    return buffer.getvalue()


def inline_svg(svg: bytes, name: str, label: str) -> Markup:
    """Turn an SVG file into an element of a page: it follows the page's colours and fonts.

    Its ids are prefixed by `name`, for all figures of a page share one space of ids.
    """
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = text.replace(INK, "currentColor").replace(RULE, "var(--rule)")
    opening = Markup('<svg role="img" aria-label="{}" ').format(label)
    return Markup(text.replace("<svg ", opening, 1))

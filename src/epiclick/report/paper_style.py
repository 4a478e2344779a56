"""What the figures of the paper have in common: names, colours, bands over runs, files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from epiclick.data.atomic import written_aside
from epiclick.paper.checks import LEVEL
from epiclick.paper.variants import VARIANTS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# of Okabe and Ito, which colour-blind readers can tell apart
COLOURS: dict[str, str] = {
    "pointwise": "#222222",
    "naive-literal": "#999999",
    "naive": "#d55e00",
    "self_normalized": "#cc79a7",
    "conditioned": "#0072b2",
    "exact": "#009e73",
    "marginal": "#e69f00",
}
TRUTH = "#c0392b"
FONT = 9
DPI = 150


@dataclass(frozen=True)
class Line:
    """How one method is drawn."""

    method: str
    label: str
    colour: str
    dashes: str = "-"


def line_of(method: str) -> Line:
    """A method in the colour of its family, dashed with baselines; its name as in the paper."""
    family = method.split("+")[0].split("@")[0].split("~")[0].removesuffix("/S")
    dashes = "--" if method.endswith("+baseline") else "-"
    return Line(method, label_of(method), COLOURS.get(family, "#555555"), dashes)


def label_of(method: str) -> str:
    """The name of a method for people."""
    return VARIANTS[method].label if method in VARIANTS else method


def new_figure(width: float, height: float) -> "Figure":
    """A figure that is drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: "Figure", folder: Path, name: str) -> Path:
    """Write a figure as PNG and PDF; the same figure gives the same files."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # all is in its place: once for both files is enough
    for form in ("pdf", "png"):
        with written_aside(folder / f"{name}.{form}") as aside:
            dated = {"metadata": {"CreationDate": None}} if form == "pdf" else {"dpi": DPI}
            figure.savefig(aside, format=form, **dated)
    return folder / f"{name}.png"


def band(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over runs (axis 0) and the ends of its Student-t interval, over runs that are finite.

    Where fewer than two are, the interval is the mean itself.
    """
    good = np.isfinite(values)
    runs = good.sum(axis=0)
    kept = np.where(good, values, 0.0)
    mean = np.where(runs > 0, kept.sum(axis=0) / np.maximum(runs, 1), np.nan)
    square = np.where(good, (kept - mean) ** 2, 0.0).sum(axis=0)
    freedom = np.maximum(runs - 1, 1)
    error = np.sqrt(square / freedom / np.maximum(runs, 1))
    half = np.where(runs > 1, stats.t.ppf((1 + level) / 2, freedom) * error, 0.0)
    return mean, mean - half, mean + half


def tidy(axes: "Axes", title: str = "") -> None:
    """Fonts and a faint grid."""
    axes.tick_params(labelsize=FONT - 1)
    axes.grid(alpha=0.2, linewidth=0.5)
    if title:
        axes.set_title(title, fontsize=FONT)


def legend_below(figure: "Figure", axes: Sequence["Axes"], columns: int) -> None:
    """One legend for all axes, below them."""
    entries: dict[str, Artist] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=min(columns, max(1, len(entries))),
        fontsize=FONT,
        frameon=False,
    )

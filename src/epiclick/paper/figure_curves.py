"""Figures over epochs: likelihood (2, why RQ2), relevance (4), entropy (5); and a common style."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from epiclick.data.writing import written_aside
from epiclick.paper.claims_entropy import unweighted, weighted
from epiclick.paper.results import Results
from epiclick.paper.statement import LEVEL, METRICS, PUBLISHED
from epiclick.paper.variants import EXPERIMENTS, VARIANTS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# the palette of Okabe and Ito, distinguishable by colour-blind readers
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

FIGURE_4 = ("naive+baseline", "self_normalized", "self_normalized+baseline", "conditioned", "exact")
WHY = {
    "pointwise": ("#222222", "-"),
    "pointwise~start=0.1": ("#d55e00", "-"),
    "pointwise~start=0.9": ("#cc79a7", "-"),
    "pointwise~batches": ("#777777", "--"),
    "pointwise~lookup=1": ("#777777", ":"),
    "naive-literal": ("#56b4e9", "--"),
    "conditioned": ("#0072b2", "-"),
    "exact": ("#009e73", "-"),
    "exact~nu-frozen": ("#e69f00", "-"),
    "exact~lookup=1": ("#009e73", ":"),
}
BEST = ("pointwise", "conditioned", "conditioned+baseline", "exact", "marginal")
STATISTICS = {
    "mu_mean": r"Average of the $\mu_{q,d}$",
    "mu_sd": r"s.s.d. of the $\mu_{q,d}$",
    "nu_mean": r"Average of the $\nu_{q,d}$",
    "nu_sd": r"s.s.d. of the $\nu_{q,d}$",
}
WEIGHTS = {"0": "#0072b2", "0.0001": "#56b4e9", "0.001": "#009e73", "0.01": "#e69f00",
           "0.25": "#d55e00"}  # fmt: skip
WIDE_RANGE = 20.0  # highest / median curve: above, a linear axis would show one curve only
LEAST_CLOSE_UP = 0.002  # nats per display: smallest range
WIDEST = 0.5  # nats per display: worse models are cut off
LEAST_MEANS = 0.1  # of mean relevance: smallest range


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
    """The name of a method in figures and tables."""
    return VARIANTS[method].label if method in VARIANTS else method


def new_figure(width: float, height: float) -> "Figure":
    """A figure that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: "Figure", folder: Path, name: str) -> Path:
    """Write a figure as PNG and PDF; the same figure gives the same files."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, for both files
    for form in ("pdf", "png"):
        with written_aside(folder / f"{name}.{form}") as aside:
            options = {"metadata": {"CreationDate": None}} if form == "pdf" else {"dpi": DPI}
            figure.savefig(aside, format=form, **options)
    return folder / f"{name}.png"


def band(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over finite runs (axis 0) and the bounds of its Student-t interval.

    With fewer than two finite runs the interval is the mean itself.
    """
    finite = np.isfinite(values)
    runs = finite.sum(axis=0)
    kept = np.where(finite, values, 0.0)
    mean = np.where(runs > 0, kept.sum(axis=0) / np.maximum(runs, 1), np.nan)
    square = np.where(finite, (kept - mean) ** 2, 0.0).sum(axis=0)
    freedom = np.maximum(runs - 1, 1)
    error = np.sqrt(square / freedom / np.maximum(runs, 1))
    half = np.where(runs > 1, stats.t.ppf((1 + level) / 2, freedom) * error, 0.0)
    return mean, mean - half, mean + half


def tidy(axes: "Axes", title: str = "") -> None:
    """Set fonts, a faint grid and the title."""
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


def draw_likelihood(results: Results, folder: Path) -> Path | None:
    """Figure 2: test log-likelihood of all methods over epochs."""
    return _likelihood(
        results, [line_of(method) for method in EXPERIMENTS["a"]], folder, "figure-2"
    )


def draw_why(results: Results, folder: Path) -> Path | None:
    """Pointwise models with other initial values, epistemic ones with frozen confidences."""
    lines = [Line(m, line_of(m).label, colour, dashes) for m, (colour, dashes) in WHY.items()]
    if not any("~" in line.method and line.method in results.methods for line in lines):
        return None
    return _likelihood(results, lines, folder, "figure-why-rq2")


def draw_relevance(results: Results, folder: Path) -> Path | None:
    """Figure 4: means and confidences of relevance over epochs."""
    lines = [line_of(method) for method in FIGURE_4 if results.has(method, "mu_mean")]
    if not lines:
        return None
    figure = new_figure(12.5, 3.4)
    axes = figure.subplots(1, 4)
    for panel, (quantity, title) in zip(axes, STATISTICS.items(), strict=True):
        _curves(panel, results, lines, quantity)
        _set_range(panel, results, lines, quantity)
        tidy(panel, title)
        panel.set_xlabel("Epochs", fontsize=FONT)
    legend_below(figure, axes, 5)
    return save(figure, folder, "figure-4")


def draw_entropy(results: Results, folder: Path, family: str, name: str) -> Path | None:
    """Figure 5: likelihood and learned relevance for several entropy weights."""
    keys = {w: weighted(family, w) if w != "0" else unweighted(family) for w in WEIGHTS}
    lines = [
        Line(keys[weight], rf"$\lambda={weight}$", colour)
        for weight, colour in WEIGHTS.items()
        if keys[weight] in results.methods
    ]
    if not any("@" in line.method for line in lines):
        return None
    figure = new_figure(11, 5.6)
    axes = figure.subplots(2, 3).ravel()
    panels = {PUBLISHED: "Log-Likelihood", **STATISTICS}
    for panel, (quantity, title) in zip(axes, panels.items(), strict=False):
        _curves(panel, results, lines, quantity)
        if quantity == PUBLISHED:
            _limits(panel, results, lines, quantity, close_up=False)
        else:
            _set_range(panel, results, lines, quantity)
        tidy(panel, title)
        panel.set_xlabel("Epochs", fontsize=FONT)
    axes[-1].set_axis_off()
    title = line_of(unweighted(family)).label + (", 1/S" if family.endswith("/S") else "")
    axes[-1].legend(*axes[0].get_legend_handles_labels(), loc="center", fontsize=FONT + 1,
                    title=title, frameon=False)  # fmt: skip
    return save(figure, folder, name)


def _likelihood(results: Results, lines: Sequence[Line], folder: Path, name: str) -> Path | None:
    """A column per metric; top: the whole range, bottom: a close-up of the best methods."""
    lines = [line for line in lines if results.has(line.method, PUBLISHED)]
    if not lines:
        return None
    figure = new_figure(11, 6.8)
    axes = figure.subplots(2, 3, sharex=True)
    for column, (metric, title) in enumerate(METRICS.items()):
        for row in range(2):
            panel = axes[row, column]
            close_up = row == 1
            _curves(panel, results, lines, metric, paired=close_up)
            _limits(panel, results, lines, metric, close_up=close_up)
            tidy(panel, "" if close_up else title)
        axes[1, column].set_xlabel("Epochs", fontsize=FONT)
    axes[0, 0].set_ylabel("Log-Likelihood", fontsize=FONT)
    axes[1, 0].set_ylabel("Log-Likelihood, close-up", fontsize=FONT)
    legend_below(figure, axes.ravel().tolist(), 4)
    return save(figure, folder, name)


def _curves(
    axes: "Axes", results: Results, lines: Sequence[Line], quantity: str, paired: bool = False
) -> None:
    """Mean and 95 % band over runs; the first lines are the thickest, so that none hides another.

    Most of a band is common to all methods of a run; `paired`, it is that of the difference to the
    pointwise model.
    """
    for line, width in zip(lines, np.linspace(2.2, 1.1, len(lines)), strict=True):
        if results.has(line.method, quantity):
            epochs, values = results.of(line.method, quantity)
            mean, low, high = band(values)
            if paired and results.has("pointwise", quantity):
                middle, low, high = band(values - results.of("pointwise", quantity)[1])
                low, high = mean + low - middle, mean + high - middle
            style = {"color": line.colour, "linestyle": line.dashes, "linewidth": width}
            axes.plot(epochs, mean, label=line.label, **style)
            axes.fill_between(epochs, low, high, color=line.colour, alpha=0.18, linewidth=0)


def _means(results: Results, lines: Sequence[Line], quantity: str) -> dict[str, np.ndarray]:
    """Means over runs by epoch, of methods with finite ones."""
    found = {
        line.method: band(results.of(line.method, quantity)[1])[0]
        for line in lines
        if results.has(line.method, quantity)
    }
    return {method: mean for method, mean in found.items() if np.isfinite(mean).all()}


def likelihood_range(means: Mapping[str, np.ndarray], *, close_up: bool) -> tuple[float, float]:
    """Limits of an axis for curves by method: of all, or down to the end of the best methods."""
    # the first epoch, or a method far off, must not squeeze all others into one line
    later = {method: mean[min(1, len(mean) - 1) :] for method, mean in means.items()}
    high = max(float(mean.max()) for mean in later.values())
    low = max(min(float(mean.min()) for mean in later.values()), high - WIDEST)
    if close_up:
        ends = {method: float(mean[-1]) for method, mean in means.items()}
        best = max(ends.values())
        low = max(low, min(v for m, v in ends.items() if m in BEST or "~" in m or v == best))
    span = max(high - low, LEAST_CLOSE_UP)
    return high - 1.15 * span, high + 0.15 * span


def _limits(
    axes: "Axes", results: Results, lines: Sequence[Line], quantity: str, close_up: bool
) -> None:
    means = _means(results, lines, quantity)
    if means:
        axes.set_ylim(likelihood_range(means, close_up=close_up))


def _set_range(axes: "Axes", results: Results, lines: Sequence[Line], quantity: str) -> None:
    """Choose an axis that neither exaggerates differences nor squeezes curves together."""
    means = list(_means(results, lines, quantity).values())
    ends = np.array([mean[-1] for mean in means])
    if not means:
        return
    if quantity == "mu_mean":
        low, high = min(m.min() for m in means), max(m.max() for m in means)
        room = max(0.1 * (high - low), (LEAST_MEANS - (high - low)) / 2)
        axes.set_ylim(low - room, high + room)
    elif ends.min() > 0 and ends.max() > WIDE_RANGE * np.median(ends):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)

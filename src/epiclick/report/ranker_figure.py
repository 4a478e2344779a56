"""Figure 7 of the paper: histograms of rankers' values by every run, beside the truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epiclick.data.atomic import written_aside

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from epiclick.paper.ranker_values import RankerValues

BINS = 40
RUN, TRUTH, POINT = "#1b6ca8", "black", "#c0392b"


def draw_ranker_values(values: "RankerValues", path: str | Path) -> None:
    """Write the figure as PNG: a column for a ranker, a row each for the paper's way and ours."""
    ways = {"independent samples (paper)": values.epistemic, "joint samples": values.joint}
    figure = rankers_figure(values.features, values.truth, ways, {"pointwise": values.pointwise})
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=150)


def rankers_figure(
    names: Sequence[str],
    truth: np.ndarray,
    ways: Mapping[str, np.ndarray],
    points: Mapping[str, np.ndarray],
) -> "Figure":
    """The figure: a column for a ranker, a row for a method.

    Args:
        names: of the features that rankers go by.
        truth: (rankers,) expected clicks a page.
        ways: (runs, rankers, samples) by name of the method.
        points: (runs, rankers) by name of the method.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, rankers = len(ways) + len(points), len(names)
    heights = [1.0] * len(ways) + [0.45] * len(points)
    figure = Figure(figsize=(3.6 * rankers, 1.0 + 2.0 * sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, rankers, squeeze=False, sharex="col",
                           gridspec_kw={"height_ratios": heights})  # fmt: skip
    for row, (name, samples) in zip(axes, ways.items(), strict=False):
        row[0].set_ylabel(f"{name}\ndensity", fontsize=9)
        for place, drawn in zip(row, samples.swapaxes(0, 1), strict=True):
            _histograms(place, drawn)
    for row, (name, values) in zip(axes[len(ways) :], points.items(), strict=True):
        row[0].set_ylabel(name, fontsize=9)
        for place, one in zip(row, values.T, strict=True):
            _marks(place, one)
    for column, (name, value) in enumerate(zip(names, truth, strict=True)):
        for place in axes[:, column]:
            place.axvline(value, color=TRUTH, linewidth=1.3, label="truth", zorder=2)
            place.set_yticks([])
            place.tick_params(labelsize=8)
            place.locator_params(axis="x", nbins=6)
        axes[0, column].set_title(f"ranked by {name}", fontsize=10)
        axes[-1, column].set_xlabel("Expected number of clicks a page", fontsize=9)
    entries: dict[str, Artist] = {}
    for handle, label in (
        pair for row in axes for pair in zip(*row[0].get_legend_handles_labels(), strict=True)
    ):
        entries.setdefault(label, handle)
    figure.legend(list(entries.values()), list(entries), loc="outside lower center",
                  ncols=len(entries), fontsize=9, frameon=False)  # fmt: skip
    return figure


def _histograms(axes: "Axes", drawn: np.ndarray) -> None:
    """Samples of every run (runs, samples), in bins that all runs share."""
    good = drawn[np.isfinite(drawn).all(axis=1)]
    if not len(good):
        axes.text(0.5, 0.5, "diverged", transform=axes.transAxes, ha="center", fontsize=9)
        return
    low, high = float(good.min()), float(good.max())
    # bins of a typical run's width: spread over all runs they would be too coarse for each
    width = float(np.median(np.ptp(good, axis=1))) / BINS * 1.5 or 1e-9
    count = int(np.clip(np.ceil((high - low) / width), 1, 10 * BINS))
    edges = np.linspace(low, low + count * max(width, (high - low) / count), count + 1).tolist()
    for run, one in enumerate(good):
        axes.hist(one, edges, density=True, histtype="stepfilled", color=RUN, alpha=0.1)
        label = "epistemic, one run each" if run == 0 else None
        axes.hist(one, edges, density=True, histtype="step", color=RUN, linewidth=0.6, label=label)


def _marks(axes: "Axes", values: np.ndarray) -> None:
    """Point estimates (runs,), spread upwards to be told apart."""
    height = (np.arange(len(values)) + 1) / (len(values) + 1)
    axes.plot(values, height, "o", color=POINT, markersize=4, alpha=0.8, markeredgewidth=0,
              label="pointwise, one run each", zorder=3)  # fmt: skip
    axes.set_ylim(0, 1)

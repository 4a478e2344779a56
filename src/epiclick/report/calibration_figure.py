"""Figures of calibration: nominal against actual coverage, and histograms of ranks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epiclick.calibration.answers import LEVELS, QUANTITIES
from epiclick.calibration.own_prior import OWN_QUANTITIES
from epiclick.calibration.table import CalibrationTable, CoverageRow, UniformityRow
from epiclick.data.writing import written_aside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10
RIGHT, OFF, BROKEN = "#1b6ca8", "#c0392b", "#8a8a8a"
SPREAD = 0.12  # of the points of one level, so that their error bars do not overlap


def draw_calibration(table: CalibrationTable, method: str, path: str | Path) -> None:
    """Write the figure of one method as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if row.method == method]
    tests = [test for test in table.uniformity if test.method == method and test.well_specified]
    quantities = [name for name in QUANTITIES if any(row.quantity == name for row in rows)]
    columns = max(1, len(quantities))
    figure = Figure(figsize=(3.4 * columns, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, columns, squeeze=False)
    for column, quantity in enumerate(quantities):
        _coverage(axes[0, column], [row for row in rows if row.quantity == quantity])
        _ranks(axes[1, column], [test for test in tests if test.quantity == quantity])
        axes[0, column].set_title(quantity.replace("_", " "), fontsize=10)
    axes[0, 0].set_ylabel("actual coverage")
    axes[1, 0].set_ylabel("ranks of the truth, against uniform")
    shrunk = "" if table.shrink == 1 else f", widths x {table.shrink:g}"
    figure.suptitle(f"{method}: {table.worlds} worlds per family{shrunk}", fontsize=11)
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=150)


def draw_own_prior(table: CalibrationTable, path: str | Path) -> None:
    """Write the figure of ranks in worlds of the model's own prior as PNG, a row per method."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tests = table.own_prior
    methods = list(dict.fromkeys(test.method for test in tests))
    figure = Figure(figsize=(2.6 * len(OWN_QUANTITIES), 2.6 * len(methods)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(methods), len(OWN_QUANTITIES), squeeze=False)
    for row, method in zip(axes, methods, strict=True):
        row[0].set_ylabel(method)
        for place, quantity in zip(row, OWN_QUANTITIES, strict=True):
            own = [test for test in tests if (test.method, test.quantity) == (method, quantity)]
            _ranks(place, own)
            place.set_xlabel("")
            p_value = "".join(f", p = {test.p_value:.3f}" for test in own)
            place.set_title(quantity.replace("_", " ") + p_value, fontsize=8)
    shrunk = "" if table.shrink == 1 else f", widths x {table.shrink:g}"
    figure.suptitle(f"ranks of the truth in {table.worlds} worlds of the model's prior{shrunk}")
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=120)


def _coverage(axes: "Axes", rows: Sequence[CoverageRow]) -> None:
    """Families as points with 99 % intervals, spread around each nominal level."""
    for nominal in LEVELS:
        own = [row for row in rows if row.nominal == nominal]
        places = nominal + SPREAD * ((np.arange(len(own)) + 0.5) / max(1, len(own)) - 0.5)
        for place, row in zip(places, own, strict=True):
            colour = BROKEN if not row.well_specified else OFF if row.flagged else RIGHT
            axes.errorbar(
                place,
                row.actual,
                yerr=[[row.actual - row.low], [row.high - row.actual]],
                color=colour,
                marker="o" if row.well_specified else "x",
                markersize=3.5,
                linewidth=0.8,
            )
        axes.hlines(nominal, nominal - SPREAD, nominal + SPREAD, color="black", linewidth=0.8)
    axes.set(xlim=(0.3, 1.05), ylim=(0, 1.02), xlabel="nominal coverage", xticks=LEVELS)


def _ranks(axes: "Axes", tests: Sequence[UniformityRow]) -> None:
    """Ranks of all well-specified families together, as a histogram around 1."""
    if not tests:
        axes.set_axis_off()
        return
    places = np.concatenate([(np.array(test.ranks) + 0.5) / (test.draws + 1) for test in tests])
    heights, edges = np.histogram(places, bins=BINS, range=(0, 1), density=True)
    axes.bar(edges[:-1], heights, width=1 / BINS, align="edge", color=RIGHT, alpha=0.6)
    band = 2.576 * np.sqrt((BINS - 1) / len(places))  # 99 % of a bin's height under uniform ranks
    axes.axhspan(max(0, 1 - band), 1 + band, color="black", alpha=0.1)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(xlim=(0, 1), ylim=(0, None), xlabel="rank / (draws + 1), well-specified worlds")

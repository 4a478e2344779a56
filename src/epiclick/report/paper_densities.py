"""Figures of position-bias distributions: 3 (by method) and 6 (by entropy weight)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from epiclick.beta import Beta
from epiclick.paper.claims_entropy import weighted
from epiclick.paper.results import Results
from epiclick.report.paper_style import (
    FONT,
    TRUTH,
    Line,
    label_of,
    legend_below,
    line_of,
    new_figure,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE_3 = ("naive+baseline", "self_normalized", "conditioned", "exact", "pointwise", "marginal")
FIGURE_6 = ("0.001", "0.25")
# probabilities at which curves are drawn: narrow and wide distributions get as many points
P = np.concatenate([[1e-5, 1e-4], np.linspace(1e-3, 1 - 1e-3, 199), [1 - 1e-4, 1 - 1e-5]])
INNER = (P >= 0.02) & (P <= 0.98)
LEAST_TOP = 3.0  # of the vertical axis, so that a flat density of about 1 looks flat


def density_curves(runs: Beta) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Densities of runs (n,) and of their Wasserstein barycentre, at the probabilities `P`.

    .. math:: Q(p) = \frac1n \sum_i Q_i(p), \qquad f(Q(p)) = 1 / Q'(p),
              \quad Q_i'(p) = 1 / f_i(Q_i(p))

    Returns:
        places (n, P) and densities (n, P) of the runs; place (P,) and density (P,) of the
        barycentre.
    """
    each = Beta(runs.alpha[:, None], runs.beta[:, None])
    places = np.clip(each.quantile(P), 1e-300, 1.0)
    log_density = each.log_density(places)
    log_mean = -(logsumexp(-log_density, axis=0) - np.log(len(places)))
    with np.errstate(over="ignore"):
        return places, np.exp(log_density), places.mean(axis=0), np.exp(log_mean)


def draw_position_bias(results: Results, folder: Path) -> Path | None:
    """Figure 3: a row for a method, a column for a position."""
    rows = [(line_of(method), label_of(method)) for method in FIGURE_3]
    return _densities(results, rows, folder, "figure-3")


def draw_entropy_bias(results: Results, folder: Path, family: str, name: str) -> Path | None:
    """Figure 6: the same with a mild and an extreme entropy weight."""
    mark = "1/S,\n" if family.endswith("/S") else ""
    rows = [
        (line_of(weighted(family, weight)), rf"{mark}$\lambda={weight}$") for weight in FIGURE_6
    ]
    return _densities(results, rows, folder, name)


def _densities(
    results: Results, rows: Sequence[tuple[Line, str]], folder: Path, name: str
) -> Path | None:
    """Densities of every run, their barycentre and the truth; marks for point estimates."""
    rows = [row for row in rows if row[0].method in results.methods]
    if not rows:
        return None
    positions = len(results.truth)
    point = [not results.has(line.method, "theta_alpha") for line, _ in rows]
    heights = [0.45 if one else 1.0 for one in point]
    figure = new_figure(11, 1.0 + 1.45 * sum(heights))
    axes = figure.subplots(len(rows), positions, squeeze=False, sharex=True,
                           gridspec_kw={"height_ratios": heights})  # fmt: skip
    for places, (line, label), is_point in zip(axes, rows, point, strict=True):
        if is_point:
            theta = results.last(line.method, "theta")
            for place, values in zip(places, theta.T, strict=True):
                _points(place, values, line)
        else:
            alpha = results.last(line.method, "theta_alpha")
            beta = results.last(line.method, "theta_beta")
            for place, a, b in zip(places, alpha.T, beta.T, strict=True):
                _panel(place, a, b, line)
        places[0].set_ylabel(label.replace(" (", "\n(").replace(" + ", "\n+ "), fontsize=FONT)
    for k, column in enumerate(axes.T):
        for place in column:
            place.axvline(results.truth[k], color=TRUTH, linewidth=1.3, label="truth", zorder=1)
            place.set_xlim(-0.02, 1.02)
            place.set_yticks([])
            place.tick_params(labelsize=FONT - 1)
        column[0].set_title(rf"$\theta_{{{k + 1}}}$", fontsize=FONT + 2)
        column[-1].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    legend_below(figure, [row[0] for row in axes], 5)
    return save(figure, folder, name)


def _panel(axes: "Axes", alpha: np.ndarray, beta: np.ndarray, line: Line) -> None:
    """One position of one method: (runs,) parameters."""
    sound = np.isfinite(alpha) & np.isfinite(beta) & (alpha > 0) & (beta > 0)
    if not sound.any():
        axes.text(0.5, 0.5, "diverged", transform=axes.transAxes, ha="center", fontsize=FONT)
        return
    places, densities, place, density = density_curves(Beta(alpha[sound], beta[sound]))
    for run, (x, y) in enumerate(zip(places, densities, strict=True)):
        axes.plot(x, y, color="#5b8db8", alpha=0.45, linewidth=0.7,
                  label="one run" if run == 0 else None)  # fmt: skip
    axes.plot(place, density, color="black", linewidth=1.4, label="barycentre of the runs")
    # narrow runs may be many times as high as the typical one
    highest = np.quantile([_highest(x, y) for x, y in zip(places, densities, strict=True)], 0.8)
    axes.set_ylim(0, 1.1 * max(LEAST_TOP, float(highest), _highest(place, density)))


def _highest(x: np.ndarray, y: np.ndarray) -> float:
    """The most of a density away from 0 and 1, where it may be infinite."""
    inner = INNER & (x > 0.02) & (x < 0.98)
    heights = y[inner if inner.any() else INNER]
    return float(heights[np.isfinite(heights)].max(initial=0.0))


def _points(axes: "Axes", values: np.ndarray, line: Line) -> None:
    """Point estimates, a mark for a run, spread upwards to be told apart."""
    height = (np.arange(len(values)) + 1) / (len(values) + 1)
    axes.plot(values, height, "o", color=line.colour, markersize=3, alpha=0.8, markeredgewidth=0,
              label=f"{line.label}, one run", zorder=2)  # fmt: skip
    axes.set_ylim(0, 1)

"""All figures of a reproduction, named as in the paper.

Figures over epochs are drawn by `paper.figure_curves`; here are those of distributions after the
last epoch: position bias (3 and 6) and values of rankers (7).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from epiclick.beta import Beta
from epiclick.data.writing import written_aside
from epiclick.paper import figure_curves as curves
from epiclick.paper.claims_entropy import weighted
from epiclick.paper.figure_curves import FONT, Line, label_of, legend_below, line_of, new_figure
from epiclick.paper.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from epiclick.paper.worlds import RankerValues

FIGURE_3 = ("naive+baseline", "self_normalized", "conditioned", "exact", "pointwise", "marginal")
FIGURE_6 = ("0.001", "0.25")
FIGURE_7 = ("conditioned", "exact", "marginal")

# probabilities at which densities are drawn: narrow and wide distributions get as many points
P = np.concatenate([[1e-5, 1e-4], np.linspace(1e-3, 1 - 1e-3, 199), [1 - 1e-4, 1 - 1e-5]])
INNER = (P >= 0.02) & (P <= 0.98)
LEAST_TOP = 3.0  # of the vertical axis, so that a flat density of about 1 looks flat
BINS = 40
POINT_HEIGHT = 0.45  # of a row of point estimates, relative to one of distributions


def density_curves(runs: Beta) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Densities of runs (n,) and of their Wasserstein barycentre, at the probabilities `P`.

    .. math:: Q(p) = \frac1n \sum_i Q_i(p), \qquad f(Q(p)) = 1 / Q'(p),
              \quad Q_i'(p) = 1 / f_i(Q_i(p))

    Returns:
        quantiles (n, P) and densities (n, P) of the runs; quantiles (P,) and densities (P,) of
        the barycentre.
    """
    each = Beta(runs.alpha[:, None], runs.beta[:, None])
    quantiles = np.clip(each.quantile(P), 1e-300, 1.0)
    log_density = each.log_density(quantiles)
    log_mean = -(logsumexp(-log_density, axis=0) - np.log(len(quantiles)))
    with np.errstate(over="ignore"):
        return quantiles, np.exp(log_density), quantiles.mean(axis=0), np.exp(log_mean)


def draw_position_bias(results: Results, folder: Path) -> Path | None:
    """Figure 3: a row per method, a column per position."""
    rows = [(line_of(method), label_of(method)) for method in FIGURE_3]
    return _draw_biases(results, rows, folder, "figure-3")


def draw_entropy_bias(results: Results, folder: Path, family: str, name: str) -> Path | None:
    """Figure 6: the same with a mild and an extreme entropy weight."""
    mark = "1/S,\n" if family.endswith("/S") else ""
    rows = [
        (line_of(weighted(family, weight)), rf"{mark}$\lambda={weight}$") for weight in FIGURE_6
    ]
    return _draw_biases(results, rows, folder, name)


def _draw_biases(
    results: Results, rows: Sequence[tuple[Line, str]], folder: Path, name: str
) -> Path | None:
    """Densities of every run, their barycentre and the truth; marks for point estimates."""
    rows = [row for row in rows if row[0].method in results.methods]
    if not rows:
        return None
    is_point = [not results.has(line.method, "theta_alpha") for line, _ in rows]
    heights = [POINT_HEIGHT if point else 1.0 for point in is_point]
    figure = new_figure(11, 1.0 + 1.45 * sum(heights))
    axes = figure.subplots(len(rows), len(results.truth), squeeze=False, sharex=True,
                           gridspec_kw={"height_ratios": heights})  # fmt: skip
    for panels, (line, label), point in zip(axes, rows, is_point, strict=True):
        if point:
            theta = results.point_bias(line.method)
            for panel, values in zip(panels, theta.T, strict=True):
                _marks(panel, values, line.colour, 3, f"{line.label}, one run", zorder=2)
        else:
            alpha = results.last(line.method, "theta_alpha")
            beta = results.last(line.method, "theta_beta")
            for panel, a, b in zip(panels, alpha.T, beta.T, strict=True):
                _densities(panel, a, b)
        panels[0].set_ylabel(label.replace(" (", "\n(").replace(" + ", "\n+ "), fontsize=FONT)
    for k, column in enumerate(axes.T):
        for panel in column:
            panel.axvline(results.truth[k], color=curves.TRUTH, linewidth=1.3, label="truth",
                          zorder=1)  # fmt: skip
            panel.set_xlim(-0.02, 1.02)
            panel.set_yticks([])
            panel.tick_params(labelsize=FONT - 1)
        column[0].set_title(rf"$\theta_{{{k + 1}}}$", fontsize=FONT + 2)
        column[-1].set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    legend_below(figure, [row[0] for row in axes], 5)
    return curves.save(figure, folder, name)


def _densities(axes: "Axes", alpha: np.ndarray, beta: np.ndarray) -> None:
    """One position of one method: (runs,) parameters."""
    valid = np.isfinite(alpha) & np.isfinite(beta) & (alpha > 0) & (beta > 0)
    if not valid.any():
        _diverged(axes)
        return
    quantiles, densities, *barycentre = density_curves(Beta(alpha[valid], beta[valid]))
    for run, (x, y) in enumerate(zip(quantiles, densities, strict=True)):
        axes.plot(x, y, color="#5b8db8", alpha=0.45, linewidth=0.7,
                  label="one run" if run == 0 else None)  # fmt: skip
    axes.plot(*barycentre, color="black", linewidth=1.4, label="barycentre of the runs")
    # narrow runs may be many times as high as a typical one
    tops = [_highest(x, y) for x, y in zip(quantiles, densities, strict=True)]
    top = max(LEAST_TOP, float(np.quantile(tops, 0.8)), _highest(*barycentre))
    axes.set_ylim(0, 1.1 * top)


def _highest(x: np.ndarray, y: np.ndarray) -> float:
    """Maximum of a density away from 0 and 1, where it may be infinite."""
    inner = INNER & (x > 0.02) & (x < 0.98)
    heights = y[inner if inner.any() else INNER]
    return float(heights[np.isfinite(heights)].max(initial=0.0))


def draw_rankers(results: Results, folder: Path) -> Path | None:
    """Figure 7: values of rankers that were never shown."""
    methods = [method for method in FIGURE_7 if method in results.methods]
    samples = {
        label_of(method): results.samples(method, "ranker_sample")
        for method in methods
        if results.has(method, "ranker_sample")
    }
    points = {}
    if results.has("pointwise", "ranker_value"):
        points[label_of("pointwise")] = results.last("pointwise", "ranker_value")
    evaluated = [m for m in ("pointwise", *methods) if results.has(m, "ranker_truth")]
    if not evaluated or not (samples or points):
        return None
    truth = results.last(evaluated[0], "ranker_truth")[0]
    names = results.rankers or tuple(f"ranker {i + 1}" for i in range(len(truth)))
    return curves.save(_rankers_figure(names, truth, samples, points), folder, "figure-7")


def draw_ranker_values(values: "RankerValues", path: str | Path) -> None:
    """Write figure 7 as PNG for independent and joint samples."""
    samples = {"independent samples (paper)": values.epistemic, "joint samples": values.joint}
    points = {"pointwise": values.pointwise}
    figure = _rankers_figure(values.features, values.truth, samples, points)
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=curves.DPI)


def _rankers_figure(
    names: Sequence[str],
    truth: np.ndarray,
    samples: Mapping[str, np.ndarray],
    points: Mapping[str, np.ndarray],
) -> "Figure":
    """A column per ranker, a row per method.

    Args:
        names: of the features that rankers sort by.
        truth: (rankers,) expected clicks per page.
        samples: (runs, rankers, samples) by name of the method.
        points: (runs, rankers) by name of the method.
    """
    heights = [1.0] * len(samples) + [POINT_HEIGHT] * len(points)
    figure = new_figure(3.6 * len(names), 1.0 + 2.0 * sum(heights))
    axes = figure.subplots(len(heights), len(names), squeeze=False, sharex="col",
                           gridspec_kw={"height_ratios": heights})  # fmt: skip
    for panels, (name, drawn) in zip(axes, samples.items(), strict=False):
        panels[0].set_ylabel(f"{name}\ndensity", fontsize=FONT)
        for panel, by_run in zip(panels, drawn.swapaxes(0, 1), strict=True):
            _histograms(panel, by_run)
    for panels, (name, values) in zip(axes[len(samples) :], points.items(), strict=True):
        panels[0].set_ylabel(name, fontsize=FONT)
        for panel, by_run in zip(panels, values.T, strict=True):
            _marks(panel, by_run, "#c0392b", 4, "pointwise, one run each", zorder=3)
    for column, name, value in zip(axes.T, names, truth, strict=True):
        for panel in column:
            panel.axvline(value, color="black", linewidth=1.3, label="truth", zorder=2)
            panel.set_yticks([])
            panel.tick_params(labelsize=FONT - 1)
            panel.locator_params(axis="x", nbins=6)
        column[0].set_title(f"ranked by {name}", fontsize=FONT + 1)
        column[-1].set_xlabel("Expected number of clicks per page", fontsize=FONT)
    legend_below(figure, [row[0] for row in axes], 5)
    return figure


def _histograms(axes: "Axes", drawn: np.ndarray) -> None:
    """Samples of every run (runs, samples), in bins that all runs share."""
    finite = drawn[np.isfinite(drawn).all(axis=1)]
    if not len(finite):
        _diverged(axes)
        return
    low, high = float(finite.min()), float(finite.max())
    # bins for the range of a typical run: those for the range of all runs would be too coarse
    width = float(np.median(np.ptp(finite, axis=1))) / BINS * 1.5 or 1e-9
    count = int(np.clip(np.ceil((high - low) / width), 1, 10 * BINS))
    edges = np.linspace(low, low + count * max(width, (high - low) / count), count + 1).tolist()
    colour = "#1b6ca8"
    for run, one in enumerate(finite):
        axes.hist(one, edges, density=True, histtype="stepfilled", color=colour, alpha=0.1)
        axes.hist(one, edges, density=True, histtype="step", color=colour, linewidth=0.6,
                  label="epistemic, one run each" if run == 0 else None)  # fmt: skip


def _marks(
    axes: "Axes", values: np.ndarray, colour: str, size: float, label: str, zorder: int
) -> None:
    """Point estimates (runs,) as marks at different heights, to keep them apart."""
    height = (np.arange(len(values)) + 1) / (len(values) + 1)
    axes.plot(values, height, "o", color=colour, markersize=size, alpha=0.8, markeredgewidth=0,
              label=label, zorder=zorder)  # fmt: skip
    axes.set_ylim(0, 1)


def _diverged(axes: "Axes") -> None:
    axes.text(0.5, 0.5, "diverged", transform=axes.transAxes, ha="center", fontsize=FONT)


@dataclass(frozen=True)
class PaperFigure:
    """A figure: its title, its caption, and the function that draws it into a folder."""

    title: str
    caption: str
    draw: Callable[[Results, Path], Path | None]


BAND = "Lines are means over the runs that did not diverge, bands 95 % Student-t intervals."
CLOSE_UP = (
    "Top: the whole range. Bottom: a close-up of the best methods, with bands of the paired "
    "difference to the pointwise model, since most of the other bands is common to all methods of "
    "a run."
)
STATISTICS = (
    "Average and sample standard deviation of the means mu and confidences nu of relevance over "
    "all displayed pairs."
)

FAMILIES = {
    "": ("self-normalised + conditioning", "conditioned"),
    "-literal": ("the same with the paper's literal 1/S", "conditioned/S"),
    "-exact": ("exact estimator", "exact"),
}
"""Estimators of figures 5 and 6: suffix of the file -> description, family of variants."""

FIGURES: dict[str, PaperFigure] = {
    "figure-2": PaperFigure(
        "Figure 2: log-likelihood of test clicks over training epochs",
        f"{BAND} Three metrics: of all test clicks jointly, as the paper publishes it; of single "
        f"clicks by their expected probability; of all clicks of a pair jointly. {CLOSE_UP}",
        curves.draw_likelihood,
    ),
    "figure-3": PaperFigure(
        "Figure 3: learned distributions of position bias",
        "After the last epoch: the density of every run, their Wasserstein barycentre, point "
        "estimates as marks, the truth as a vertical line. Each panel has its own vertical scale; "
        "the uniform density has height 1.",
        draw_position_bias,
    ),
    "figure-4": PaperFigure(
        "Figure 4: relevance distributions during training",
        f"{STATISTICS} {BAND}",
        curves.draw_relevance,
    ),
    **{
        f"figure-5{suffix}": PaperFigure(
            f"Figure 5: entropy regularisation, {estimator}",
            f"Published log-likelihood, and: {STATISTICS.lower()} {BAND}",
            partial(curves.draw_entropy, family=family, name=f"figure-5{suffix}"),
        )
        for suffix, (estimator, family) in FAMILIES.items()
    },
    **{
        f"figure-6{suffix}": PaperFigure(
            f"Figure 6: position bias with entropy regularisation, {estimator}",
            "As figure 3, with a mild and an extreme entropy weight.",
            partial(draw_entropy_bias, family=family, name=f"figure-6{suffix}"),
        )
        for suffix, (estimator, family) in FAMILIES.items()
    },
    "figure-7": PaperFigure(
        "Figure 7: expected clicks of rankers that were never shown",
        "Rankers by a single feature: those with the highest, the median and the lowest true "
        "value. Histograms of the samples of every run, point estimates as marks, the truth as a "
        "vertical line.",
        draw_rankers,
    ),
    "figure-why-rq2": PaperFigure(
        "Why RQ2: initial values of pointwise models, and frozen confidences",
        f"{BAND} {CLOSE_UP} Pointwise models with other initial values, with the batches of "
        "epistemic models, and with a lookup that learns no faster than the network; the epistemic "
        "model with frozen confidences; and the naïve estimator as written, which never learns.",
        curves.draw_why,
    ),
}
"""By the name of the file."""


def draw_all(results: Results, folder: str | Path) -> list[Path]:
    """Write every figure whose methods were run, as PNG and PDF; return the PNG files in order."""
    folder = Path(folder)
    drawn = (each.draw(results, folder) for each in FIGURES.values())
    return [path for path in drawn if path is not None]

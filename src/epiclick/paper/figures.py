"""All figures of a reproduction, named as in the paper; densities, and values of rankers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from epiclick.beta import Beta
from epiclick.data.writing import written_aside
from epiclick.paper.claims_entropy import weighted
from epiclick.paper.figure_curves import (
    FONT,
    TRUTH,
    Line,
    draw_entropy,
    draw_likelihood,
    draw_relevance,
    draw_why,
    label_of,
    legend_below,
    line_of,
    new_figure,
    save,
)
from epiclick.paper.results import Results

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from epiclick.paper.worlds import RankerValues


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


BINS = 40
RUN, TRUE_VALUE, POINT = "#1b6ca8", "black", "#c0392b"


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
            place.axvline(value, color=TRUE_VALUE, linewidth=1.3, label="truth", zorder=2)
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


BAND = "Lines are means over the runs that did not diverge, bands 95 % Student-t intervals."
CLOSE_UP = (
    "Above the whole range; below a close-up of the best methods, whose bands are of the "
    "difference to the pointwise model in the same run: most of the others is what runs have in "
    "common."
)
STATISTICS = (
    "Average and sample standard deviation of the means mu and confidences nu of relevance over "
    "all displayed pairs."
)


@dataclass(frozen=True)
class PaperFigure:
    """A figure: what stands above it, what below, and how it is drawn into a folder."""

    title: str
    caption: str
    draw: Callable[[Results, Path], Path | None]


def draw_rankers(results: Results, folder: Path) -> Path | None:
    """Figure 7: values of rankers that were never shown."""
    methods = [m for m in ("conditioned", "exact", "marginal") if m in results.methods]
    ways = {
        label_of(method): results.samples(method, "ranker_sample")
        for method in methods
        if results.has(method, "ranker_sample")
    }
    points = {}
    if results.has("pointwise", "ranker_value"):
        points[label_of("pointwise")] = results.last("pointwise", "ranker_value")
    asked = [m for m in ("pointwise", *methods) if results.has(m, "ranker_truth")]
    if not asked or not (ways or points):
        return None
    truth = results.last(asked[0], "ranker_truth")[0]
    names = results.rankers or tuple(f"ranker {i + 1}" for i in range(len(truth)))
    return save(rankers_figure(names, truth, ways, points), folder, "figure-7")


FAMILIES = {
    "": ("self-normalised + conditioning", "conditioned"),
    "-literal": ("the same with the paper's literal 1/S", "conditioned/S"),
    "-exact": ("exact estimator", "exact"),
}
"""Figures 5 and 6 are drawn for several estimators: what their files end in -> words, family."""

FIGURES: dict[str, PaperFigure] = {
    "figure-2": PaperFigure(
        "Figure 2: log-likelihood of test clicks over training epochs",
        f"{BAND} In three metrics: of all test clicks at once, as the paper publishes it; of "
        "single clicks by their expected probability; of all clicks of a pair together. "
        f"{CLOSE_UP}",
        draw_likelihood,
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
        draw_relevance,
    ),
    **{
        f"figure-5{suffix}": PaperFigure(
            f"Figure 5: entropy regularisation, {words}",
            f"Published log-likelihood, and: {STATISTICS.lower()} {BAND}",
            partial(draw_entropy, family=family, name=f"figure-5{suffix}"),
        )
        for suffix, (words, family) in FAMILIES.items()
    },
    **{
        f"figure-6{suffix}": PaperFigure(
            f"Figure 6: position bias with entropy regularisation, {words}",
            "As figure 3, with a mild and an extreme entropy weight.",
            partial(draw_entropy_bias, family=family, name=f"figure-6{suffix}"),
        )
        for suffix, (words, family) in FAMILIES.items()
    },
    "figure-7": PaperFigure(
        "Figure 7: expected clicks of rankers that were never shown",
        "Rankers by a single feature: those with the highest, the median and the lowest true "
        "value. Histograms of the samples of every run, point estimates as marks, the truth as a "
        "vertical line.",
        draw_rankers,
    ),
    "figure-why-rq2": PaperFigure(
        "Why RQ2: starts of pointwise models, and frozen confidences",
        f"{BAND} {CLOSE_UP} Pointwise models that start from other values, with the batches of "
        "epistemic models, and with a lookup that learns no faster than the network; the epistemic "
        "model with its confidences held where they start; and the naïve estimator to the letter, "
        "which never moves.",
        draw_why,
    ),
}
"""By the name of the file."""


def draw_all(results: Results, folder: str | Path) -> list[Path]:
    """Write every figure whose methods were run, as PNG and PDF; the PNG files, in order."""
    folder = Path(folder)
    drawn = (each.draw(results, folder) for each in FIGURES.values())
    return [path for path in drawn if path is not None]

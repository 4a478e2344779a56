"""All figures of a reproduction, named as in the paper."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from epiclick.paper.results import Results
from epiclick.report.paper_curves import draw_entropy, draw_likelihood, draw_relevance, draw_why
from epiclick.report.paper_densities import draw_entropy_bias, draw_position_bias
from epiclick.report.paper_style import label_of, save
from epiclick.report.ranker_figure import rankers_figure

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

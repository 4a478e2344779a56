"""Figure 7 of the paper: histograms of rankers' values by every run, beside the truth."""

from pathlib import Path
from typing import TYPE_CHECKING

from epiclick.data.atomic import written_aside

if TYPE_CHECKING:
    from epiclick.paper.ranker_values import RankerValues

BINS = 40


def draw_ranker_values(values: "RankerValues", path: str | Path) -> None:
    """Write the figure as PNG: a column for a ranker, a row each for the paper's way and ours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rankers = len(values.features)
    figure = Figure(figsize=(3.4 * rankers, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, rankers, squeeze=False, sharex="col")
    ways = (("independent samples (paper)", values.epistemic), ("joint samples", values.joint))
    for row, (name, samples) in enumerate(ways):
        axes[row, 0].set_ylabel(f"{name}\ndensity")
        for column in range(rankers):
            place = axes[row, column]
            for run, drawn in enumerate(samples[:, column]):
                label = "epistemic, one run each" if run == 0 else None
                place.hist(drawn, BINS, density=True, histtype="step", color="#1b6ca8", label=label)
            for run, value in enumerate(values.pointwise[:, column]):
                label = "pointwise, one run each" if run == 0 else None
                place.plot(value, 0, "v", color="#c0392b", clip_on=False, label=label)
            place.axvline(values.truth[column], color="black", label="truth")
            place.set_yticks([])
    for column, name in enumerate(values.features):
        axes[0, column].set_title(f"ranked by {name}", fontsize=10)
        axes[1, column].set_xlabel("expected clicks a page")
    axes[0, -1].legend(fontsize=7)
    with written_aside(path) as aside:
        figure.savefig(aside, format="png", dpi=150)

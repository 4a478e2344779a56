"""The rate of each method, chosen on the validation queries of a run of its own."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from epiclick.data.atomic import written_aside
from epiclick.paper.presets import GRID
from epiclick.paper.reproduce import reproduce
from epiclick.paper.settings import MOST_RUNS, Settings
from epiclick.paper.variants import VARIANTS

TUNING = "tuning"
RATES = "rates.json"
TRIED = "tried.json"


@dataclass(frozen=True)
class Tuned:
    """Likelihood per display of the validation queries after the last epoch, by rate.

    Attributes:
        method: key of the method.
        tried: rate -> log-likelihood; minus infinity where training diverged.
    """

    method: str
    tried: dict[float, float]

    @property
    def rate(self) -> float:
        """The best rate, the lower one of two that are as good."""
        return max(sorted(self.tried), key=lambda rate: self.tried[rate])

    @property
    def at_the_edge(self) -> bool:
        """Whether a rate beyond those tried might be better still."""
        return self.rate in (min(self.tried), max(self.tried))


def tune(
    settings: Settings,
    folder: str | Path,
    path: str | Path | None = None,
    *,
    grid: tuple[float, ...] = GRID,
    jobs: int | None = None,
    progress: bool = True,
) -> list[Tuned]:
    """Try every rate of a grid with every method that has one; write the best, and all scores.

    Args:
        settings: of the reproduction; the methods among them decide what is tuned.
        folder: of the reproduction; cells are kept in a folder within.
        path: LETOR data, unless they are synthetic.
        grid: rates of the network.
        jobs: processes.
        progress: show a table of the cells under way, on a terminal.
    """
    asked = dict.fromkeys(VARIANTS[key].tuned for key in settings.methods or VARIANTS)
    tried: dict[str, dict[float, float]] = {method: {} for method in asked}
    for rate in grid:
        trial = replace(
            settings,
            rates=dict.fromkeys(asked, rate),
            scored="vali",
            methods=tuple(asked),
            runs=1,
            first_run=MOST_RUNS,
        )
        place = Path(folder) / TUNING / f"{rate:g}"
        found = reproduce(trial, place, path, jobs=jobs, progress=progress)
        assert found is not None, "all cells were done"
        for method in asked:
            score = float(found.last(method, "per_display")[0, 0])
            tried[method][rate] = -np.inf if np.isnan(score) else score
    tuned = [Tuned(method, scores) for method, scores in tried.items()]
    scores = {
        each.method: {f"{r:g}": s if np.isfinite(s) else None for r, s in each.tried.items()}
        for each in tuned
    }
    for name, told in ((TRIED, scores), (RATES, {each.method: each.rate for each in tuned})):
        with written_aside(Path(folder) / name) as aside:
            aside.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return tuned

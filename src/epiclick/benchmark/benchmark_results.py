"""What a benchmark found: rows of scores, and differences between versions of a click model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from epiclick.benchmark.benchmark_cells import CellResult
from epiclick.benchmark.cell_scores import METRICS, difference_in
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.versions import OURS

Place = tuple[str, str]
"""A click model and a version."""


@dataclass(frozen=True)
class BenchmarkRow:
    """Scores and costs of one fit.

    Attributes:
        model: the click model.
        version: of it.
        scores: by the names of METRICS; None where a fit has none.
        impossible: held-out pages of probability 0.
        processor_seconds: of the fit, libraries loaded.
        process_seconds: of the process, with start, libraries and prediction.
        peak_mb: largest resident memory of the process.
    """

    model: str
    version: str
    scores: Mapping[str, float | None]
    impossible: int
    processor_seconds: float
    process_seconds: float
    peak_mb: float


@dataclass(frozen=True)
class BenchmarkDifference:
    """A metric of one fit minus that of another, paired by query.

    Attributes:
        metric: its name in METRICS.
        one: model and version of the first.
        other: model and version of the second.
        difference: mean.
        low: lower end of its interval.
        high: upper end.
    """

    metric: str
    one: Place
    other: Place
    difference: float
    low: float
    high: float

    @property
    def better(self) -> int:
        """+1 if the first is better, -1 if it is worse, 0 if the interval contains 0."""
        sign = int(self.low > 0) - int(self.high < 0)
        return sign * METRICS[self.metric].is_better


@dataclass(frozen=True)
class DatasetResults:
    """All fits to one data set.

    Attributes:
        name: of the data set.
        title: in words.
        settings: what it was made from.
        sizes: numbers of queries, pairs, pages, displays and clicks.
        rows: one for each fit.
        from_ours: our fit minus the other versions of the same click model, in each metric.
        from_best: every fit minus the best one, in each metric.
    """

    name: str
    title: str
    settings: Mapping[str, Any]
    sizes: Mapping[str, int]
    rows: tuple[BenchmarkRow, ...]
    from_ours: tuple[BenchmarkDifference, ...]
    from_best: tuple[BenchmarkDifference, ...]

    @classmethod
    def of(cls, data: BenchmarkData, results: Mapping[Place, CellResult], level: float) -> Self:
        """From the finished cells of a data set."""
        rows = tuple(_row(place, each) for place, each in results.items())
        return cls(
            data.name,
            data.title,
            dict(data.settings),
            sizes_of(data),
            rows,
            tuple(
                difference
                for model, version in results
                if version != OURS and (model, OURS) in results
                for difference in _differences((model, OURS), (model, version), results, level)
            ),
            tuple(
                difference
                for metric, best in _best_of(rows).items()
                for place in results
                if place != best
                for difference in _differences(place, best, results, level, (metric,))
            ),
        )

    def best(self, metric: str) -> BenchmarkRow | None:
        """The fit with the best value of a metric; None without any."""
        place = _best_of(self.rows).get(metric)
        return next((row for row in self.rows if (row.model, row.version) == place), None)

    def ours_minus(self, model: str, version: str, metric: str) -> BenchmarkDifference | None:
        """Our fit of a click model minus another version; None where there is none."""
        wanted = metric, (model, version)
        return next((each for each in self.from_ours if (each.metric, each.other) == wanted), None)

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class BenchmarkResults:
    """A whole benchmark.

    Attributes:
        datasets: results by data set.
        level: probability of the intervals.
        clax: release of CLAX; None where it was left out.
    """

    datasets: tuple[DatasetResults, ...]
    level: float
    clax: str | None

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {
            "level": self.level,
            "clax": self.clax,
            "datasets": [each.to_dict() for each in self.datasets],
        }


def sizes_of(data: BenchmarkData) -> dict[str, int]:
    """Numbers of queries, pairs, pages, displays and clicks."""
    return {
        "queries": data.queries,
        "pairs": data.pairs,
        "training_pages": len(data.train),
        "held_out_pages": len(data.test),
        "held_out_displays": int(data.test.shown.sum()),
        "held_out_clicks": int(data.test.clicked.sum()),
        "held_out_pages_with_two_clicks": int((data.test.clicked.sum(axis=1) > 1).sum()),
    }


def _row(place: Place, result: CellResult) -> BenchmarkRow:
    scores = {name: metric.value(result.scores) for name, metric in METRICS.items()}
    return BenchmarkRow(
        *place,
        scores,
        result.scores.impossible,
        result.processor_seconds,
        result.process_seconds,
        result.peak_memory / 1e6,
    )


def _best_of(rows: tuple[BenchmarkRow, ...]) -> dict[str, Place]:
    """The best fit by each metric that some fit has."""
    found = {}
    for name, metric in METRICS.items():
        known = [(row.scores[name], row) for row in rows]
        scored = [(metric.is_better * value, row) for value, row in known if value is not None]
        if scored:
            row = max(scored, key=lambda each: each[0])[1]
            found[name] = row.model, row.version
    return found


def _differences(
    one: Place,
    other: Place,
    results: Mapping[Place, CellResult],
    level: float,
    metrics: tuple[str, ...] = tuple(METRICS),
) -> list[BenchmarkDifference]:
    found = []
    for name in metrics:
        pair = results[one].scores, results[other].scores
        difference = difference_in(METRICS[name], *pair, level)
        if difference is not None:
            found.append(BenchmarkDifference(name, one, other, **asdict(difference)))
    return found

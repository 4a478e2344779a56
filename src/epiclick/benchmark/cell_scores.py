r"""Scores of one fit on held-out pages, by query, so that fits can be paired.

Perplexity at rank r is $\exp(-L_r / n_r)$, with L the sum of log-probabilities and n the number of
displays there; the scores are its means over ranks, with marginal probabilities (`perplexity`) and
with those given the clicks above (`conditional_perplexity`). How far a query moves such a mean is,
to first order, its *influence*

.. math:: I_q = -\frac{1}{R} \sum_r e^{-L_r / n_r}
          \Big(\frac{L_{qr}}{n_r} - \frac{L_r}{n_r} \frac{n_{qr}}{n_r}\Big),

from which differences between two fits get intervals clustered by query.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.ranking_quality import CUT, query_ndcg
from epiclick.evaluation.page_chances import PageChances
from epiclick.evaluation.paired_differences import PairedDifference, paired_difference
from epiclick.selection.held_out_scores import Displays, scores_of


@dataclass(frozen=True)
class CellScores:
    """Scores of a fit; lists have an entry per query, of held-out displays.

    A fit that gives some held-out page probability 0 has no scores of clicks, only nDCG.

    Attributes:
        displays: number of displays.
        ndcg: of each query; None where it has none, empty where relevance is unknown.
        impossible: held-out pages of probability 0.
        pages: held-out pages.
        given: sum of log-probabilities given the clicks above.
        marginal: the same, not given them.
        perplexity: marginal, mean over ranks.
        perplexity_influence: of each query.
        conditional_perplexity: the same given the clicks above.
        conditional_influence: of each query.
    """

    displays: list[int]
    ndcg: list[float | None]
    impossible: int
    pages: int
    given: list[float] = field(default_factory=list)
    marginal: list[float] = field(default_factory=list)
    perplexity: float | None = None
    perplexity_influence: list[float] = field(default_factory=list)
    conditional_perplexity: float | None = None
    conditional_influence: list[float] = field(default_factory=list)

    @property
    def is_scored(self) -> bool:
        """Whether all held-out pages have a positive probability."""
        return not self.impossible

    @property
    def log_likelihood(self) -> float | None:
        """Mean per display, given the clicks above it; None if some pages are impossible."""
        return sum(self.given) / sum(self.displays) if self.is_scored else None

    @property
    def mean_ndcg(self) -> float | None:
        """Mean over the queries that have one; None without any."""
        known = [each for each in self.ndcg if each is not None]
        return sum(known) / len(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**stored)


def score_cell(data: BenchmarkData, displays: Displays, relevance: np.ndarray) -> CellScores:
    """The scores of probabilities on the held-out pages.

    Args:
        data: the data set.
        displays: of its held-out pages; places are positions from 0.
        relevance: (pairs,) estimates; NaN for pairs without training displays.
    """
    contexts = pd.DataFrame({"position": np.arange(1, data.test.depth + 1)})
    scores = scores_of(displays, data.queries, contexts)
    unscored = CellScores(
        displays=scores.displays.tolist(),
        ndcg=_ndcg(data, relevance),
        impossible=scores.impossible,
        pages=len(data.test),
    )
    if scores.impossible:
        return unscored
    marginal = rank_perplexity(displays, displays.marginal_logs, data)
    given = rank_perplexity(displays, displays.logs, data)
    return replace(
        unscored,
        given=scores.given.tolist(),
        marginal=scores.marginal.tolist(),
        perplexity=marginal.value,
        perplexity_influence=marginal.influence.tolist(),
        conditional_perplexity=given.value,
        conditional_influence=given.influence.tolist(),
    )


def displays_of(data: BenchmarkData, chances: PageChances) -> Displays:
    """The held-out displays with their probabilities, (pages, depth)."""
    pages = data.test
    shown = pages.shown
    clicks = pages.clicked[shown].astype(np.int64)
    return Displays(
        query=data.query_of[pages.pair[shown]],
        place=pages.place[shown],
        clicks=clicks,
        displays=np.ones_like(clicks),
        given=chances.given[shown],
        marginal=chances.marginal[shown],
        page=np.nonzero(shown)[0],
    )


class RankPerplexity(NamedTuple):
    """Mean perplexity over ranks, and the influence of each query, (queries,)."""

    value: float
    influence: np.ndarray


def rank_perplexity(displays: Displays, logs: np.ndarray, data: BenchmarkData) -> RankPerplexity:
    """Mean perplexity over ranks from log-probabilities of displays."""
    shape = (data.queries, data.test.depth)
    cell = displays.query * shape[1] + displays.place
    size = shape[0] * shape[1]
    number = np.bincount(cell, displays.displays, size).reshape(shape)
    sums = np.bincount(cell, logs, size).reshape(shape)
    known = number.sum(axis=0) > 0
    number, sums = number[:, known], sums[:, known]
    total = number.sum(axis=0)
    mean = sums.sum(axis=0) / total
    perplexity = np.exp(-mean)
    influence = -((sums - mean * number) / total * perplexity).mean(axis=1)
    return RankPerplexity(float(perplexity.mean()), influence)


def _ndcg(data: BenchmarkData, relevance: np.ndarray) -> list[float | None]:
    """Of items that training pages show: of others, estimates by id know nothing."""
    if data.gain is None:
        return []
    rows = np.unique(data.train.pair[data.train.shown])
    assert not np.isnan(relevance[rows]).any(), "an item with displays has no estimate"
    found = query_ndcg(data.query_of[rows], relevance[rows], data.gain[rows], data.queries)
    return [None if np.isnan(each) else float(each) for each in found]


@dataclass(frozen=True)
class Metric:
    """A score by which two fits are compared.

    Attributes:
        title: for tables.
        digits: after the decimal point.
        is_better: +1 if a higher value is better, -1 if a lower one is.
        value: of a fit; None where it has none.
        by_query: (queries,) sums by query; their total over that of the weights is the value.
        weights: (queries,) number of displays, or 1 for a query with a value of its own.
    """

    title: str
    digits: int
    is_better: int
    value: Callable[[CellScores], float | None]
    by_query: Callable[[CellScores], np.ndarray]
    weights: Callable[[CellScores], np.ndarray]


def _displays(scores: CellScores) -> np.ndarray:
    return np.array(scores.displays, float)


def _linearised(value: str, influence: str) -> Callable[[CellScores], np.ndarray]:
    """Values by query whose weighted mean is a perplexity, and whose spread its influences."""

    def by_query(scores: CellScores) -> np.ndarray:
        displays = _displays(scores)
        return getattr(scores, value) * displays + displays.sum() * np.array(
            getattr(scores, influence)
        )

    return by_query


METRICS: dict[str, Metric] = {
    "log_likelihood": Metric(
        "log-likelihood per display",
        5,
        +1,
        lambda scores: scores.log_likelihood,
        lambda scores: np.array(scores.given),
        _displays,
    ),
    "perplexity": Metric(
        "perplexity",
        4,
        -1,
        lambda scores: scores.perplexity,
        _linearised("perplexity", "perplexity_influence"),
        _displays,
    ),
    "conditional_perplexity": Metric(
        "conditional perplexity",
        4,
        -1,
        lambda scores: scores.conditional_perplexity,
        _linearised("conditional_perplexity", "conditional_influence"),
        _displays,
    ),
    "ndcg": Metric(
        f"nDCG@{CUT}",
        4,
        +1,
        lambda scores: scores.mean_ndcg,
        lambda scores: np.array([0.0 if each is None else each for each in scores.ndcg]),
        lambda scores: np.array([each is not None for each in scores.ndcg], float),
    ),
}


def difference_in(
    metric: Metric, one: CellScores, other: CellScores, level: float
) -> PairedDifference | None:
    """A metric of one fit minus that of another, paired by query; None where either has none."""
    if metric.value(one) is None or metric.value(other) is None:
        return None
    weights = metric.weights(one)
    assert np.array_equal(weights, metric.weights(other)), "other held-out displays"
    kept = weights > 0
    if kept.sum() < 2:
        return None
    gain = metric.by_query(one) - metric.by_query(other)
    return paired_difference(gain[kept], weights[kept], level)

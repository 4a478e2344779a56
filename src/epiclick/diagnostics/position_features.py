r"""Is there a feature that nearly determines where an item is shown?

Measured by the rank correlation within queries between a feature and the mean position of an item,

.. math:: \rho = \frac{\sum_i a_i b_i}{\sqrt{\sum_i a_i^2 \sum_i b_i^2}},

with a and b the ranks (ties averaged) of the two among the items of the same query that were shown,
each minus the query's mean rank. A feature that is the same for all items of a query has none.

The score of the live ranker has a correlation near -1, and is the best feature there is. A feature
that was computed from the displays themselves, such as the position or a click rate that was not
corrected for it, has one as well, and is wrong: position bias is then taken for relevance.
"""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from epiclick.data.counts import ClickCounts

NEARLY = 0.85
"""Correlation from which a feature is reported. In 42 simulated worlds the strongest of 2 to 20
features that a ranker combines had 0.14 to 0.78, the largest of two and without noise. The mean
position in an earlier log of the same ranker had 0.98 to 1.00 without noise, 0.78 to 0.91 with
little of it, and 0.34 to 0.62 with much, where it determines little; in the same log it has 1."""

MOST_PAIRS = 20_000
"""Pairs to measure it on: enough to know a correlation to 0.01."""

LEAST_PAIRS = 50
"""Pairs of queries with two or more items without which nothing is said."""


@dataclass(frozen=True)
class PositionFeature:
    """A feature that nearly determines the position.

    Attributes:
        feature: its name.
        correlation: with the mean position, within queries; negative if high values are on top.
    """

    feature: str
    correlation: float


@dataclass(frozen=True)
class PositionFeatures:
    """Features that nearly determine the position of items.

    Attributes:
        pairs: number of pairs that were used.
        strongest: the feature with the strongest correlation; None if none has any.
        found: features whose correlation is at least `NEARLY`, strongest first.
    """

    pairs: int
    strongest: PositionFeature | None
    found: tuple[PositionFeature, ...]

    @classmethod
    def of(cls, counts: ClickCounts) -> Self | None:
        """Of counts with features; None where there are none, no positions or too few items."""
        if counts.features is None or "position" not in counts.contexts.column_names:
            return None
        pairs = _some_queries(counts)
        if len(pairs) < LEAST_PAIRS:
            return None
        assert counts.feature_row is not None
        _, query = np.unique(counts.query[pairs], return_inverse=True)
        values = counts.features.rows(counts.feature_row[pairs])
        found = within_correlations(values, _mean_position(counts)[pairs], query)
        ranked = [
            PositionFeature(counts.features.names[i], round(float(found[i]), 4))
            for i in np.argsort(-np.abs(np.nan_to_num(found)), kind="stable")
            if np.isfinite(found[i])
        ]
        strong = tuple(each for each in ranked if abs(each.correlation) >= NEARLY)
        return cls(len(pairs), ranked[0] if ranked else None, strong)

    @property
    def warnings(self) -> list[str]:
        """A warning that names the features, what they may be and when that is wrong."""
        if not self.found:
            return []
        named = ", ".join(f"{each.feature} ({each.correlation:+.2f})" for each in self.found[:5])
        several = len(self.found) > 1
        whose, them = ("features", "them") if several else ("a feature", "it")
        return [
            f"{whose} nearly determine{'' if several else 's'} the position of an item (rank "
            f"correlation with it within queries): {named}. That is right for the score of the "
            "live ranker, which is known before a display and says what it knew; keep such a "
            "score. It is wrong for what was measured on the displays of this log, such as the "
            "position itself or a click rate by position: clicks that are due to position are "
            f"then taken for relevance. If so, leave {them} out with --ignore-feature (in Python: "
            "read_features(..., ignore=[...]))"
        ]

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {**asdict(self), "found": [asdict(each) for each in self.found]}


def within_correlations(values: np.ndarray, position: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(features,) rank correlation within queries of (rows, features) with (rows,) positions.

    `query` numbers the queries from 0. NaN for features that never differ within a query.
    """
    own = _centred_ranks(position, query)
    found = np.full(values.shape[1], np.nan)
    for i, column in enumerate(values.T):
        ranks = _centred_ranks(column, query)
        norm = np.sqrt(np.sum(ranks**2) * np.sum(own**2))
        if norm > 0:
            found[i] = np.sum(ranks * own) / norm
    return found


def _centred_ranks(values: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(rows,) rank of each value in its query, ties averaged, minus the query's mean rank."""
    order = np.lexsort((values, query))
    value, group = values[order], query[order]
    starts = np.ones(len(order), bool)
    starts[1:] = (value[1:] != value[:-1]) | (group[1:] != group[:-1])
    run = np.cumsum(starts) - 1
    place = np.arange(len(order), dtype=np.float64)
    mean = np.bincount(run, place) / np.bincount(run)
    ranks = np.empty(len(order))
    ranks[order] = mean[run]
    return ranks - (np.bincount(query, ranks) / np.bincount(query))[query]


def _some_queries(counts: ClickCounts) -> np.ndarray:
    """Pairs of queries with two items or more; of evenly spaced queries if there are many."""
    size = np.bincount(counts.query, minlength=counts.num_queries)
    (several,) = np.nonzero(size > 1)
    step = max(1, -(-int(size[several].sum()) // MOST_PAIRS))
    chosen = np.zeros(counts.num_queries, bool)
    chosen[several[::step]] = True
    return np.flatnonzero(chosen[counts.query])


def _mean_position(counts: ClickCounts) -> np.ndarray:
    """(pairs,) mean position of the displays of each pair."""
    position = np.asarray(counts.contexts["position"].to_numpy(), np.float64)[counts.context]
    total = np.bincount(counts.pair, counts.displays * position, len(counts))
    return total / np.bincount(counts.pair, counts.displays, len(counts))

"""How far observed and predicted clicks may lie apart: noise between queries, spread over draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from epiclick.data.by_column import ByColumn
from epiclick.data.counts import ClickCounts
from epiclick.data.matching import locate_rows
from epiclick.models.averaging import bias_by, networks_of
from epiclick.models.fitted import FittedModel
from epiclick.models.prediction import chunks_of, contexts_of, relevance_of_pairs
from epiclick.models.uncertainty import parameter_draws

DRAWS = 256
"""Of the parameters, for their spread; answers need fewer, as means settle sooner."""

FEWEST_DRAWS = 64
"""For logs of so many pairs that more would take long."""

MOST_JUDGED = 2**24  # pairs by draws

FEWEST_QUERIES = 2.0
"""Effective queries that must differ before their differences tell an error."""

CHUNK = 4096  # pairs at once, each by every draw


@dataclass(frozen=True, eq=False)
class Shown:
    """Displays and clicks in groups to be compared, each a part of an entry of some counts.

    Attributes:
        group: (rows,) number of the group.
        entry: (rows,) of the counts.
        query: (rows,) number of the query; need not agree between groups.
        displays: (rows,)
        clicks: (rows,)
        groups: how many there are; each has a display.
    """

    group: np.ndarray
    entry: np.ndarray
    query: np.ndarray
    displays: np.ndarray
    clicks: np.ndarray
    groups: int

    @classmethod
    def of(cls, counts: ClickCounts, columns: Sequence[ByColumn]) -> Self:
        """The whole of the counts as group 0, then the values of each column."""
        entries = len(counts.pair)
        parts = [(np.zeros(entries, np.int64), np.arange(entries), counts)]
        groups = 1
        for column in columns:
            parts.append((groups + column.counts.context, column.entry, column.counts))
            groups += len(column.values)
        return cls(
            group=np.concatenate([group for group, _, _ in parts]),
            entry=np.concatenate([entry for _, entry, _ in parts]),
            query=np.concatenate([part.query[part.pair] for _, _, part in parts]),
            displays=np.concatenate([part.displays for _, _, part in parts]),
            clicks=np.concatenate([part.clicks for _, _, part in parts]),
            groups=groups,
        )

    def total(self, amount: np.ndarray) -> np.ndarray:
        """(groups,) sums of (rows,) amounts."""
        return np.bincount(self.group, amount, self.groups)


def query_noise(shown: Shown, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Standard error of clicks about their expectation, and effective number of queries.

    .. math:: \frac{n}{n - 1} \sum_q \Big(O_q - \frac{O}{P} P_q\Big)^2, \qquad
              n = P^2 \Big/ \sum_q P_q^2

    is its square, for O_q clicks observed and P_q expected of query q, O and P in all; but at least
    that of independent clicks. So it holds whatever the clicks of a query have in common.

    Args:
        shown: displays and clicks.
        chance: (rows,) probability of a click at a display.

    Returns:
        (groups,) each; the error is NaN with too few queries.
    """
    expected = shown.displays * chance
    ratio = shown.total(shown.clicks) / shown.total(expected)
    residual = shown.clicks - ratio[shown.group] * expected
    _, first, cell = np.unique(
        shown.group * (shown.query.max() + 1) + shown.query, return_index=True, return_inverse=True
    )

    def squared(amount: np.ndarray) -> np.ndarray:
        """(groups,) sums over queries of the square of their sum of (rows,) amounts."""
        by_query = np.bincount(cell, amount)
        return np.bincount(shown.group[first], by_query**2, shown.groups)

    effective = shown.total(expected) ** 2 / squared(expected)
    enough = effective >= FEWEST_QUERIES
    inflated = effective / np.where(enough, effective - 1, np.nan)
    independent = shown.total(expected * (1 - chance))
    return np.sqrt(np.maximum(inflated * squared(residual), independent)), effective


def predicted_by_draws(
    fitted: FittedModel, counts: ClickCounts, shown: Shown
) -> tuple[np.ndarray, float]:
    """Clicks expected by every draw of the parameters, and its degrees of freedom.

    Items known by their clicks in training keep their relevance in all draws, as nothing tells how
    it would move with position bias.

    Args:
        fitted: the model.
        counts: what it is asked about.
        shown: groups of its displays.

    Returns:
        (draws, groups), a single draw if the model has no uncertainty.
    """
    count = int(np.clip(MOST_JUDGED // max(len(counts), 1), FEWEST_DRAWS, DRAWS))
    draws = parameter_draws(fitted, count)
    networks = networks_of(draws)
    theta, _ = bias_by(fitted, draws, contexts_of(fitted, counts.contexts, warn=False))
    # a row for every (context, group), since within one all displays have the same bias
    row = counts.context[shown.entry] * shown.groups + shown.group
    displays = sparse.csc_array(
        (shown.displays.astype(float), (row, counts.pair[shown.entry])),
        (len(counts.contexts) * shown.groups, len(counts)),
    )
    total, first = np.zeros((shown.groups, len(draws))), 0
    for _, _, part in chunks_of(counts, CHUNK):
        alpha, beta = relevance_of_pairs(fitted, networks, part)
        relevance = _with_known(fitted, part, alpha / (alpha + beta))
        here = displays[:, first : first + len(part)]
        used, index = np.unique(here.indices, return_inverse=True)
        rows = sparse.csc_array((here.data, index, here.indptr), (len(used), len(part)))
        clicks = theta.T[used // shown.groups] * (rows @ np.ascontiguousarray(relevance.T))
        np.add.at(total, used % shown.groups, clicks)
        first += len(part)
    # draws of a Gaussian come in pairs that mirror each other
    freedom = len(draws) - 1 if fitted.members else len(draws) / 2
    return total.T, float(freedom)


def _with_known(fitted: FittedModel, counts: ClickCounts, relevance: np.ndarray) -> np.ndarray:
    """(networks, pairs) relevance, that of items known by their clicks in their place."""
    items = fitted.items
    if items is None:
        return relevance
    row = locate_rows(
        {"query_id": counts.query_id, "doc_id": counts.doc_id},
        {"query_id": items.query_id, "doc_id": items.doc_id},
    )
    return np.where(row >= 0, (items.alpha / (items.alpha + items.beta))[row], relevance)

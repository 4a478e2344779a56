"""What placements say about a ranker's scores, corrected by pages whose scores are known.

The posterior of a score in `exposure.py` compares an item with thresholds that are the same for all
queries. In truth they depend on the other candidates of a query, and on them all of its pages
alike: posterior means of items that were shown differ too much from each other, and a slope of
relevance in them is too small. So pages are simulated from the fitted model of the ranker, with
the log's own queries, and the errors of the posterior means there are regressed on what is known of
an item. The expectation of a score given its corrected mean is then the mean itself.
"""

from typing import NamedTuple, Self

import numpy as np

from epiclick.data.placement import BANDS, Placement

FEWEST = 50
"""Simulated items, shown or never shown, below which nothing is corrected."""


class Correction(NamedTuple):
    """Correction of scores of items that were shown, or of those that never were.

    Attributes:
        weights: (columns,) of the error of the mean, see `_columns`.
        ratio: of the actual variance to that of the posterior.
    """

    weights: np.ndarray
    ratio: float

    @classmethod
    def none(cls) -> Self:
        """Leaves scores as they are."""
        return cls(np.zeros(6), 1.0)

    @classmethod
    def fit(
        cls, actual: np.ndarray, expected: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> Self:
        """By least squares; (items,) each.

        Args:
            actual: simulated scores.
            expected: what features suggest.
            mean: of the posterior.
            variance: of the posterior.
        """
        if len(actual) < FEWEST:
            return cls.none()
        columns, error = _columns(expected, mean, variance), actual - mean
        weights = np.linalg.lstsq(columns, error, rcond=1e-6)[0]
        left = np.mean((error - columns @ weights) ** 2)
        return cls(weights, float(left / np.mean(variance)))

    def apply(
        self, expected: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Corrected mean and variance, (items,) each; arguments as for `fit`."""
        corrected = mean + _columns(expected, mean, variance) @ self.weights
        return corrected, self.ratio * variance


def _columns(expected: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """(items, columns) that errors of the posterior mean may depend on."""
    shift = mean - expected
    return np.column_stack(
        [np.ones(len(mean)), shift, shift**2, expected, variance, variance * shift]
    )


def simulated_placement(
    score: np.ndarray,
    noise: float,
    query: np.ndarray,
    placement: Placement,
    most_pages: float,
    rng: np.random.Generator,
) -> Placement:
    """Placement of items on pages that show the best of each query, with new noise on each page.

    Args:
        score: (items,) of all candidates of some queries.
        noise: variance of the noise.
        query: (items,) numbers of the queries, 0, 1, ...
        placement: in the log, for the number of pages of a query and their length.
        most_pages: number of pages of a query that are simulated at most.
        rng: source of the noise.
    """
    known = np.isfinite(placement.pages)
    pages = np.where(known, np.minimum(np.round(placement.pages), most_pages), 0.0)
    slots = np.round(np.nan_to_num(placement.slots, nan=1.0))
    start = np.concatenate([[0], np.cumsum(np.bincount(query))])
    displays = np.zeros((len(score), len(BANDS)), np.float32)
    rank = np.empty(len(score), int)
    for page in range(int(pages.max(initial=0))):
        drawn = score + np.sqrt(noise) * rng.standard_normal(len(score))
        order = np.lexsort((-drawn, query))
        rank[order] = np.arange(len(score)) - start[query[order]]
        (shown,) = np.nonzero((rank < slots) & (page < pages))
        displays[shown, np.searchsorted(BANDS, rank[shown] + 1)] += 1
    return Placement(displays, pages, placement.slots)

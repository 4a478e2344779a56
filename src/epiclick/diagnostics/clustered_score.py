r"""The score of an assumption: does a click depend on what it should not depend on?

With y a click, x a property of its display, and r the part of x that the assumption's own strata
do not explain, the relative change of the click rate per unit of x and its standard error are

.. math:: \beta = \frac{\sum_q U_q}{\sum_q V_q}, \qquad
          U_q = \sum_{i \in q} (y_i - \bar y_i) r_i, \quad
          V_q = \sum_{i \in q} \bar y_i r_i^2, \qquad
          \operatorname{se}(\beta)^2 = \frac{n}{n - 1}
          \frac{\sum_q (U_q - \beta V_q)^2}{(\sum_q V_q)^2}

over clusters q, which are queries, whatever the correlation within a cluster. The effective number
of clusters, n = (sum V)^2 / sum V^2, gives Student's t its n - 1 degrees of freedom.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

FEWEST_CLUSTERS = 2.0  # effective ones, below which nothing can be said


@dataclass(frozen=True)
class ClusteredScore:
    """How much clicks depend on a property of their displays.

    Attributes:
        change: relative change of the click rate per unit of the property.
        error: its standard error.
        clusters: effective number of clusters.
        spread: standard deviation of the property, within strata and weighted by clicks.
    """

    change: float
    error: float
    clusters: float
    spread: float

    @property
    def effect(self) -> float:
        """Relative change of the click rate per standard deviation of the property."""
        return self.change * self.spread

    @property
    def z(self) -> float:
        """The change in standard errors."""
        return self.change / self.error

    def p_value(self, *, is_positive: bool = False) -> float:
        """Probability of a change as large, if there is none: in either direction, or upwards."""
        if is_positive:
            return float(special.stdtr(self.clusters - 1, -self.z))
        return float(2 * special.stdtr(self.clusters - 1, -abs(self.z)))

    @classmethod
    def of(
        cls, cluster: np.ndarray, score: np.ndarray, information: np.ndarray, clicks: float
    ) -> Self | None:
        """From rows of any kind, (rows,) each; None if they say nothing.

        Args:
            cluster: of each row.
            score: y r, less its mean.
            information: the mean of y, times r squared.
            clicks: expected in all rows.
        """
        if not len(cluster):
            return None
        by_cluster, own = (np.bincount(cluster, values) for values in (score, information))
        total = float(own.sum())
        if not total > 0 or not clicks > 0:
            return None
        clusters = total**2 / float(np.square(own).sum())
        change = float(by_cluster.sum() / total)
        squares = float(np.square(by_cluster - change * own).sum())
        if clusters < FEWEST_CLUSTERS or squares == 0:
            return None
        error = math.sqrt(clusters / (clusters - 1) * squares) / total
        return cls(change, error, clusters, math.sqrt(total / clicks))


def stratified_score(
    stratum: np.ndarray, cluster: np.ndarray, clicked: np.ndarray, covariate: np.ndarray
) -> ClusteredScore | None:
    r"""The score of independence within strata, where r = x - mean(x): Mantel and Haenszel's.

    If clicks do not depend on x given the stratum, its mean is 0 for strata of any size: clicks
    have one mean in a stratum, and r adds to 0 there. Strata are divided by cluster, as the scores
    of two parts of one are correlated.

    Args:
        stratum: (displays,) any whole number.
        cluster: (displays,) index.
        clicked: (displays,) y.
        covariate: (displays,) x.
    """
    clusters = int(cluster.max(initial=0)) + 1
    _, own = np.unique(stratum * clusters + cluster, return_inverse=True)
    size = np.maximum(np.bincount(own), 1)
    mean = (np.bincount(own, covariate) / size)[own]
    rate = (np.bincount(own, clicked) / size)[own]
    rest = covariate - mean
    rest[np.abs(rest) < 1e-12 * (1 + np.abs(mean))] = 0  # rounding is not variation
    told = rest != 0
    if not told.any():
        return None
    return ClusteredScore.of(
        cluster[told],
        ((clicked - rate) * rest)[told],
        (rate * rest**2)[told],
        float(rate[told].sum()),
    )


SWEEPS, TOLERANCE = 200, 1e-6
LEAST_EXPECTED = 1e-9  # clicks of a cell, below which it says nothing


def two_way_score(
    row: np.ndarray,
    column: np.ndarray,
    cluster: np.ndarray,
    clicks: np.ndarray,
    expected: np.ndarray,
    covariate: np.ndarray,
) -> ClusteredScore | None:
    r"""The score of a product of two effects, :math:`E[y] = a_{row} b_{column}`, without x.

    r is what is left of x after effects of rows and of columns are removed, weighted by expected
    clicks. These come from other pages than the clicks. If a and b are off by small errors, the
    mean of the score is off by their product only.

    Args:
        row: (cells,) index.
        column: (cells,) index.
        cluster: (cells,) index.
        clicks: (cells,) y, of the displays in a cell together.
        expected: (cells,) a b times the displays.
        covariate: (cells,) x.
    """
    told = expected > LEAST_EXPECTED
    row, column, cluster, clicks, expected, covariate = (
        values[told] for values in (row, column, cluster, clicks, expected, covariate)
    )
    rest, sides = covariate.astype(np.float64), (row, column)
    weight = [np.maximum(np.bincount(side, expected), 1e-300) for side in sides]
    scale = np.abs(covariate).max(initial=0)
    for _ in range(SWEEPS):
        before = rest
        for side, own in zip(sides, weight, strict=True):
            rest = rest - (np.bincount(side, expected * rest) / own)[side]
        if np.abs(rest - before).max(initial=0) <= TOLERANCE * scale:
            break
    rest[np.abs(rest) <= 100 * TOLERANCE * scale] = 0  # what sweeps leave is not variation
    total = float(expected[rest != 0].sum())
    return ClusteredScore.of(cluster, (clicks - expected) * rest, expected * rest**2, total)

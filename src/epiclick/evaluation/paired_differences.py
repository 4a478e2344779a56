r"""Differences of two models' scores on the same displays, with intervals clustered by query.

With d_q the difference of the scores of query q, n_q its displays, and D = sum d / sum n,

.. math:: \operatorname{se}(D)^2 = \frac{n}{n - 1}
          \sum_q \Big(\frac{d_q - D\, n_q}{\sum n_q}\Big)^2, \qquad
          n = \Big(\sum_q n_q\Big)^2 \Big/ \sum_q n_q^2,

whatever the correlation within a query. n, the effective number of queries, also gives Student's t
its n - 1 degrees of freedom: few queries, or a few large ones among many, give wide intervals.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference per display, and the ends of its interval."""

    difference: float
    low: float
    high: float


def paired_difference(gain: np.ndarray, displays: np.ndarray, level: float) -> PairedDifference:
    """The mean difference per display and its interval.

    Args:
        gain: (queries,) sum over a query's displays of one model's scores minus the other's.
        displays: (queries,) at least 1 each; two queries or more.
        level: probability of the interval.
    """
    total = displays.sum()
    mean = float(gain.sum() / total)
    effective = float(total**2 / np.square(displays, dtype=float).sum())
    spread = np.square(gain - mean * displays).sum() * effective / (effective - 1)
    half = float(special.stdtrit(effective - 1, (1 + level) / 2) * np.sqrt(spread) / total)
    return PairedDifference(mean, mean - half, mean + half)

r"""Click rates of groups with intervals that know of queries.

Displays of one query are alike, so the error of a rate comes from the differences between queries:

.. math:: s^2 = \frac{Q}{Q - 1} \frac{\sum_q (M_q - \hat r\, N_q)^2}{N^2}, \qquad
          n^* = \hat r (1 - \hat r) / s^2

and the interval is Wilson's for n* displays, never more than there are, so that it has ends even
where nothing or everything was clicked.
"""

import numpy as np
from scipy import stats

from epiclick.data.counts import ClickCounts

LEVEL = 0.9


def click_rates(
    counts: ClickCounts, group: np.ndarray, groups: int, level: float = LEVEL
) -> np.ndarray:
    """Rate, low and high of groups of entries: (3, groups); NaN where nothing was displayed.

    Args:
        counts: displays and clicks.
        group: (entries,) group of each entry.
        groups: how many there are.
        level: probability of the intervals.
    """
    displays = np.bincount(group, counts.displays, groups)
    clicks = np.bincount(group, counts.clicks, groups)
    shown = np.where(displays > 0, displays, np.nan)
    rate = clicks / shown
    cell = group.astype(np.int64) * counts.num_queries + counts.query[counts.pair]
    cells, index = np.unique(cell, return_inverse=True)
    own = cells // counts.num_queries  # group of each (group, query)
    residual = np.bincount(index, counts.clicks - rate[group] * counts.displays)
    queries = np.bincount(own, minlength=groups).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.bincount(own, residual**2, groups) * queries / (queries - 1) / shown**2
        worth = np.where(squared > 0, rate * (1 - rate) / squared, queries)
    worth = np.fmin(np.fmax(worth, 1.0), shown)
    t = stats.t.ppf((1 + level) / 2, np.maximum(queries - 1, 1))
    scale = 1 + t**2 / worth
    centre = (rate + t**2 / (2 * worth)) / scale
    half = t * np.sqrt(rate * (1 - rate) / worth + t**2 / (4 * worth**2)) / scale
    return np.stack([rate, np.maximum(centre - half, 0), np.minimum(centre + half, 1)])

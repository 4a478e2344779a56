r"""Grades 0 to 4 from posterior means, and weights from posterior widths.

An item's grade is the number of cut-offs that its mean lies above. Its weight is, up to a factor,

.. math:: w = \frac{s^2}{s^2 + v},

with v the variance of its posterior and s^2 the variance of all means: the share of what sets the
item apart that is relevance and not doubt. It is the weight of least squares, where an item misses
what its features say by a spread of its own and by the doubt about it. Between 0 and 1 before they
are scaled to a mean of 1, so that no item outweighs all others, however certain.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from epiclick.errors import InputError

GRADES = 5
QUANTILES = (0.5, 0.75, 0.9, 0.97)
"""Shares of the items below each cut-off, unless cut-offs are given."""

LEAST_SPREAD = 1e-12  # of means and posteriors together, where all are certain and alike


def cut_offs(means: np.ndarray, cuts: Sequence[float] | None = None) -> tuple[float, ...]:
    """The given cut-offs, checked; or else the `QUANTILES` of the means (items,)."""
    if cuts is None:
        return tuple(float(cut) for cut in np.quantile(means, QUANTILES))
    given = tuple(float(cut) for cut in cuts)
    inside = all(0 < cut < 1 for cut in given)
    rising = all(one < other for one, other in itertools.pairwise(given))
    if len(given) != GRADES - 1 or not inside or not rising:
        raise InputError(
            f"cuts must be {GRADES - 1} rising probabilities between 0 and 1, which part the "
            f"grades 0 to {GRADES - 1}, not {', '.join(f'{cut:g}' for cut in given) or 'none'}; "
            "such as 0.1, 0.2, 0.4, 0.6"
        )
    return given


def grades(means: np.ndarray, cuts: Sequence[float]) -> np.ndarray:
    """(items,) int32: how many cut-offs each mean lies above.

    >>> grades(np.array([0.05, 0.1, 0.3, 0.9]), (0.1, 0.2, 0.4, 0.6))
    array([0, 0, 2, 4], dtype=int32)
    """
    return np.searchsorted(np.asarray(cuts), means, side="left").astype(np.int32)


def certainty_weights(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """(items,) float64 of mean 1; the surer an item's posterior, the more it weighs."""
    weights = 1 / np.maximum(np.var(means) + variances, LEAST_SPREAD)
    return weights / weights.mean()

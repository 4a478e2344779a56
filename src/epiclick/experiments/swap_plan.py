r"""Which positions to swap, if uncertain position bias makes a difference uncertain.

If items change places at random between positions k and l, the ratio of the clicks there is that of
examination, whatever the items. From n pages with click probabilities p_k and p_l, its logarithm c
is measured with the variance

.. math:: s^2 / n, \qquad s^2 = \frac{1 - p_k}{p_k} + \frac{1 - p_l}{p_l}.

Draws of the parameters have a difference D between rankers and a contrast c each. Measuring c takes

.. math:: \frac{\operatorname{Cov}(D, c)^2}{\operatorname{Var}(c) + s^2 / n}

from the variance of D, as in linear regression; several contrasts at once, of positions that are
all shuffled, by the same formula with matrices. What draws explain by chance alone is subtracted.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import optimize

DEEPEST = 20
"""Positions among which swaps are sought."""

MOST_PAGES = 1e12


class Shuffle(NamedTuple):
    """Positions whose items change places at random.

    Attributes:
        positions: numbers of the positions, from 0.
        pages: needed, of average queries; None if no number of them is enough.
        removed: variance that an unlimited number of pages takes away.
    """

    positions: tuple[int, ...]
    pages: float | None
    removed: float

    @property
    def moved(self) -> float:
        """Slots whose items change places; infinite if no number of pages is enough."""
        return np.inf if self.pages is None else self.pages * len(self.positions)


def variance_removed(
    difference: np.ndarray, log_clicks: np.ndarray, noise: np.ndarray, pages: float
) -> float:
    """Variance of the difference that shuffled pages take away.

    Args:
        difference: (draws,) between rankers.
        log_clicks: (draws, positions) logarithm of the click probability of the same item.
        noise: (positions,) (1 - p) / p, the variance of its logarithm on one page.
        pages: number of pages.
    """
    draws, contrasts = len(difference), log_clicks.shape[1] - 1
    contrast = log_clicks[:, 1:] - log_clicks[:, :1]
    spread = np.atleast_2d(np.cov(contrast, rowvar=False))
    shared = (contrast - contrast.mean(axis=0)).T @ (difference - difference.mean()) / (draws - 1)
    measured = spread + (np.diag(noise[1:]) + noise[0]) / pages
    removed = float(shared @ np.linalg.solve(measured, shared))
    by_chance = float(np.trace(np.linalg.solve(measured, spread))) / (draws - 1 - contrasts)
    return max(removed - by_chance * (float(np.var(difference, ddof=1)) - removed), 0.0)


def best_shuffle(
    difference: np.ndarray, log_clicks: np.ndarray, noise: np.ndarray, needed: float
) -> Shuffle | None:
    """The pair of positions, or all of them, to shuffle; None where the bias of all is known.

    The one that moves the fewest items: pages times positions. Where no number of pages is enough,
    the one that takes away most. `needed` is the variance to take away, other
    arguments are those of `variance_removed`.
    """
    count = min(log_clicks.shape[1], DEEPEST)
    sets: list[Sequence[int]] = [*combinations(range(count), 2)]
    if 2 < count < len(difference) // 4:
        sets.append(range(count))
    found = []
    for positions in sets:
        at = list(positions)
        clicks = log_clicks[:, at]
        if np.ptp(clicks[:, 1:] - clicks[:, :1], axis=0).max() > 0:  # not known for certain
            found.append(_shuffle(at, difference, clicks, noise[at], needed))
    return min(found, key=lambda each: (each.moved, -each.removed), default=None)


def _shuffle(
    at: Sequence[int],
    difference: np.ndarray,
    log_clicks: np.ndarray,
    noise: np.ndarray,
    needed: float,
) -> Shuffle:
    """What shuffling some positions can do."""

    def beyond(log_pages: float) -> float:
        return variance_removed(difference, log_clicks, noise, float(np.exp(log_pages))) - needed

    most = float(np.log(MOST_PAGES))
    limit, pages = beyond(most), None
    if limit > 0:
        pages = 1.0 if beyond(0.0) >= 0 else float(np.exp(optimize.brentq(beyond, 0.0, most)))
    return Shuffle(tuple(at), pages, limit + needed)

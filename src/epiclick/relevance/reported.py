r"""Relevance as reported: the probability of a click if shown at the anchor.

Where unattractive items are clicked too, attraction zeta is identified only up to an affine map,
and what is reported is

.. math:: c = f + (1 - f)\, \zeta,

with the *floor* f the probability of a click at the anchor on an item that does not attract (the
anchor's A is 1). Every draw of the parameters has its own floor, (draws,); None stands for 0, where
both are the same.
"""

import numpy as np

from epiclick.beta import Beta
from epiclick.relevance.average import matched_beta

MOST_SPREAD = 0.98
"""Variance of an attraction relative to mean (1 - mean), at most: a Beta's is below 1."""


def reported(zeta: np.ndarray, floor: np.ndarray | None) -> np.ndarray:
    """Relevance c, (draws, ...), of an attraction (draws, ...)."""
    if floor is None:
        return zeta
    f = floor.reshape(-1, *[1] * (np.ndim(zeta) - 1))
    return f + (1 - f) * zeta


def reported_moments(
    mean: np.ndarray, variance: np.ndarray, floor: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of relevance, (draws, items) each, from those of attraction."""
    if floor is None:
        return mean, variance
    return reported(mean, floor), np.square(1 - floor)[:, None] * variance


def attraction(c: np.ndarray, floor: float) -> np.ndarray:
    """The attraction of a relevance, under one floor; 0 for a relevance below it."""
    return np.clip((c - floor) / (1 - floor), 0, 1)


def attraction_betas(alpha: np.ndarray, beta: np.ndarray, floor: float) -> Beta:
    """Betas of attraction, (items,), with the moments that Betas of relevance imply.

    A relevance whose mean is hardly above the floor leaves no room for its variance, which is then
    cut.
    """
    known = Beta(alpha, beta)
    mean = np.clip(attraction(known.mean, floor), 1e-6, 1 - 1e-6)
    variance = known.variance / (1 - floor) ** 2
    return matched_beta(mean, np.minimum(variance, MOST_SPREAD * mean * (1 - mean)))

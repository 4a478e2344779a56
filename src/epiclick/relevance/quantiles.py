"""Quantiles of relevance by Newton's method on the logit of its distribution function."""

from collections.abc import Callable

import numpy as np
from scipy import special

LOWEST = -745.0  # logits; below relevance rounds to 0
HIGHEST = 40.0  # logits; from 37 on relevance rounds to 1
MOST_STEPS = 100

At = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Pairs and a logit each -> distribution function there, and density of the logit."""


def logit_quantile(
    at: At,
    probability: np.ndarray,
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    settled: float,
) -> np.ndarray:
    """The logit below which each pair has its probability: (pairs,).

    The logit of a distribution function is straight in both tails, so that steps go far; one that
    leaves the bracket is replaced by the bracket's middle.

    Args:
        at: the distribution of some pairs.
        probability: (pairs,) strictly between 0 and 1.
        start: (pairs,) first guess, in logits.
        low: (pairs,) the quantile is not below.
        high: (pairs,) nor above.
        settled: the logit of a probability this near leaves one last step, after which the error
            is about its square.
    """
    low, high, pair = low.copy(), high.copy(), np.arange(len(start))
    u, wanted = np.clip(np.nan_to_num(start), low, high), special.logit(probability)
    for _ in range(MOST_STEPS):
        if not len(pair):
            break
        here = u[pair]
        cdf, density = at(pair, here)
        below = cdf < probability[pair]
        low[pair] = np.where(below, here, low[pair])
        high[pair] = np.where(below, high[pair], here)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # to nowhere: replaced
            gap = special.logit(cdf) - wanted[pair]
            there = here - gap * cdf * (1 - cdf) / density
        inside = (there >= low[pair]) & (there <= high[pair])
        there = np.where(inside, there, (low[pair] + high[pair]) / 2)
        u[pair] = there
        found = (inside & (abs(gap) < settled)) | (there == here)
        pair = pair[~found]
    return u


def as_logit(zeta: np.ndarray) -> np.ndarray:
    """logit(zeta), within what float64 can tell from 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.clip(special.logit(zeta), LOWEST, HIGHEST)

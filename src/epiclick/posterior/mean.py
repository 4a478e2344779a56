r"""The mean of the posterior, which lies beside its mode where the density is lopsided.

Near the bias of the anchor the likelihood hardly falls with the logit of a bias any more, so that
most of the posterior lies above its mode, at all positions together. To the next order, with
:math:`\Sigma = \sum_j s_j s_j^\top` the covariance at the mode m,

.. math:: E[x] \approx m + \tfrac{1}{2} \Sigma \sum_j
          \big(\nabla \log p(m + s_j) + \nabla \log p(m - s_j) - 2 \nabla \log p(m)\big).

The sum is over directions of position bias, in each of which the last layer follows as the Gaussian
says. What is left out are third derivatives in the last layer alone: they are small, and many.
Where the density is so lopsided that the mean seems to be further than `FURTHEST` from the mode, a
few derivatives tell no more than the side on which it is.
"""

from collections.abc import Iterator

import numpy as np

from epiclick.posterior.density import Density

SAMPLE = 20_000
"""Pairs whose gradients are looked at, where there are more."""

MOST_DIRECTIONS = 32
RANDOM_STEPS = 16
STEP = 0.2  # of a standard deviation in every direction

FURTHEST = 2.0
"""Standard deviations that the mean may lie from the mode."""


def posterior_mean(
    density: Density, mode: np.ndarray, covariance: np.ndarray, seed: int
) -> np.ndarray:
    """(size,) about the mean of the parameters.

    Args:
        density: of the parameters.
        mode: (size,) where it is highest.
        covariance: (size, size) minus the inverse of the Hessian there.
        seed: of the sample of pairs.
    """
    some, factor = density.sample(SAMPLE, seed)
    prior = density.prior

    def slope(vector: np.ndarray) -> np.ndarray:
        assumed = prior.gradient(vector)
        return assumed + factor * (some.slope(vector)[1] - assumed)

    here, bent = slope(mode), np.zeros_like(mode)
    for step, weight in _steps(bias_directions(density, covariance), seed):
        bent += weight * (slope(mode + step) + slope(mode - step) - 2 * here)
    shift = 0.5 * covariance @ bent
    distance = np.sqrt(0.5 * bent @ shift)
    return mode + min(1.0, FURTHEST / max(distance, 1e-12)) * shift


def _steps(directions: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, float]]:
    """Steps whose weighted squares add up to those of the directions.

    These themselves where they are few. Otherwise some sums of all of them with random signs, which
    is right on average (Hutchinson's estimate of a trace), and of a step that is short enough for
    the third derivatives to be seen alone.
    """
    if len(directions) <= MOST_DIRECTIONS:
        yield from ((step, 1.0) for step in directions)
        return
    signs = np.random.default_rng([seed, 12]).choice([-1.0, 1.0], (RANDOM_STEPS, len(directions)))
    for step in signs @ directions:
        yield STEP * step, 1 / (RANDOM_STEPS * STEP**2)


def bias_directions(density: Density, covariance: np.ndarray) -> np.ndarray:
    """(free contexts, size) standard deviations of position bias, which the last layer follows."""
    free = density.prior.free
    factor = np.linalg.cholesky(covariance[:free, :free])
    return np.linalg.solve(factor, covariance[:free])

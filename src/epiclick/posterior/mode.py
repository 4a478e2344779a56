r"""The most probable parameters, and their mean where the density is skewed.

A Newton step needs the Hessian of all pairs, many times the work of a gradient. So a rough Hessian
is computed once at the start, from a sample of the pairs, and updated from gradients by BFGS until
the mode is near. There the exact Hessian is computed; a few steps with it lead to the mode, and
gradients confirm it.

Near the bias of the anchor the likelihood is almost flat in the logit of a bias, so that most of
the posterior lies above its mode, at all positions at once. To the next order, with
:math:`\Sigma = \sum_j s_j s_j^\top` the covariance at the mode m,

.. math:: E[x] \approx m + \tfrac{1}{2} \Sigma \sum_j
          \big(\nabla \log p(m + s_j) + \nabla \log p(m - s_j) - 2 \nabla \log p(m)\big).

The sum is over directions of position bias, in each of which the last layer moves to its
conditional mean under the Gaussian. Third derivatives in the last layer alone are omitted: they are
small, and many. Where the density is so skewed that this mean is further than `FURTHEST` from the
mode, the expansion gives little more than its direction, and the distance is capped.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from epiclick.posterior.density import Curvature, Density

SETTLED = 1e-6
"""Standard deviations from the mode, in the direction of the next step, at which it is reached."""

NEAR = 2e-3
"""Standard deviations from the mode within which the Hessian is close to that at the mode."""

MOST_CHEAP_STEPS = 60
MOST_STEPS = 60
MOST_HALVINGS = 25
ROUNDING = 1e-15
LEAST_CURVATURE = 1e-8  # of the largest, so that no direction is flat

SAMPLE = 60_000
"""Pairs in the Hessian at the start, at most. With a fifth of 100,000 pairs and 372 parameters BFGS
took five times as many steps as with three fifths."""


class Mode(NamedTuple):
    """Where the log density is highest, and its shape there.

    Attributes:
        vector: (size,) parameters.
        gradient: (size,) of the log density there.
        curvature: derivatives and scores there, or within NEAR of it.
    """

    vector: np.ndarray
    gradient: np.ndarray
    curvature: Curvature


def find_mode(density: Density, start: np.ndarray) -> Mode:
    """Maximise from a start until a step is shorter than SETTLED, or none improves.

    Args:
        density: to be maximised.
        start: (size,) parameters.
    """
    vector = climb(density, start)
    here = density.curvature(vector)
    for _ in range(MOST_STEPS):
        spread = inverse(-here.hessian, density.prior.fixed)
        step = spread @ here.gradient
        squared = step @ here.gradient  # length of the step in standard deviations
        if squared < max(SETTLED**2, ROUNDING * abs(here.value)):
            break
        if squared < NEAR**2:
            nearby = _settled(density, vector + step, spread)
            if nearby is not None:
                return Mode(*nearby, here)
        for halving in range(MOST_HALVINGS):
            there = density.curvature(vector + 0.5**halving * step)
            if there.value >= here.value:
                vector, here = vector + 0.5**halving * step, there
                break
        else:
            break
    return Mode(vector, here.gradient, here)


def _settled(
    density: Density, vector: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The mode and the gradient there, by steps with the same Hessian; None if they do not settle.

    Near the mode each step is a small fraction of the one before.
    """
    before = np.inf
    for _ in range(MOST_STEPS):
        value, gradient = density.slope(vector)
        step = spread @ gradient
        squared = step @ gradient
        if squared < max(SETTLED**2, ROUNDING * abs(value)):
            return vector, gradient
        if squared > before / 4:
            return None
        vector, before = vector + step, squared
    return None


def settled(density: Density, near: Mode) -> Mode | None:
    """The mode, from one that is near, by steps with its Hessian; None if they do not settle."""
    spread = inverse(-near.curvature.hessian, density.prior.fixed)
    found = _settled(density, near.vector, spread)
    return None if found is None else Mode(*found, near.curvature)


def climb(
    density: Density,
    start: np.ndarray,
    most: int = MOST_CHEAP_STEPS,
    on_step: Callable[[np.ndarray, float], None] | None = None,
) -> np.ndarray:
    """Parameters NEAR the mode, by BFGS from an inverse Hessian of a sample of the pairs.

    Args:
        density: to be maximised.
        start: (size,) parameters.
        most: steps, at most.
        on_step: callback with the parameters and the log density at the start and after each step.
    """
    vector, (value, gradient) = start, density.slope(start)
    spread = inverse(-density.rough_hessian(start, SAMPLE), density.prior.fixed)
    for _ in range(most):
        if on_step is not None:
            on_step(vector, value)
        step = spread @ gradient
        if step @ gradient < NEAR**2 / 4:  # the Hessian is approximate
            break
        for halving in range(MOST_HALVINGS):
            moved = 0.5**halving * step
            there, new = density.slope(vector + moved)
            if there >= value:
                break
        else:
            break
        bent = gradient - new
        vector, value, gradient = vector + moved, there, new
        if moved @ bent > 0:  # otherwise the density is convex here, and BFGS has no update
            spread = _updated(spread, moved, bent)
    return vector


def _updated(spread: np.ndarray, moved: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """The nearest inverse Hessian that maps the change of the gradient to the step taken."""
    share = 1 / (moved @ bent)
    turned = spread @ bent
    return (
        spread
        - share * (np.outer(moved, turned) + np.outer(turned, moved))
        + share * (1 + share * bent @ turned) * np.outer(moved, moved)
    )


def inverse(matrix: np.ndarray, fixed: np.ndarray | None = None) -> np.ndarray:
    """Inverse of a symmetric matrix with its eigenvalues made positive and none too small.

    Parameters that are `fixed` (size,) are inverted separately: next to their curvature all others
    would look flat.
    """
    if fixed is not None and fixed.any():
        found, rest = np.zeros_like(matrix), np.ix_(~fixed, ~fixed)
        found[fixed, fixed] = 1 / np.diag(matrix)[fixed]
        found[rest] = inverse(matrix[rest])
        return found
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.maximum(np.abs(values), LEAST_CURVATURE * np.abs(values).max())
    return (vectors / values) @ vectors.T


MEAN_SAMPLE = 20_000
"""Pairs in the gradients of `posterior_mean`, at most."""

MOST_DIRECTIONS = 32
RANDOM_STEPS = 16
STEP = 0.2  # of a standard deviation in every direction

FURTHEST = 2.0
"""Standard deviations that the mean may lie from the mode."""


def posterior_mean(
    density: Density, mode: np.ndarray, covariance: np.ndarray, seed: int
) -> np.ndarray:
    """(size,) approximate mean of the parameters.

    Args:
        density: of the parameters.
        mode: (size,) its maximum.
        covariance: (size, size) minus the inverse of the Hessian there.
        seed: of the sample of pairs.
    """
    return mode + mean_shift(density, mode, covariance, bias_directions(density, covariance), seed)


def mean_shift(
    density: Density,
    mode: np.ndarray,
    covariance: np.ndarray,
    directions: np.ndarray,
    seed: int,
) -> np.ndarray:
    """(size,) from the mode to the mean, by third derivatives in some directions.

    Args:
        density: of the parameters.
        mode: (size,) its maximum, or the maximum given some parameters.
        covariance: (size, size) of the Gaussian there.
        directions: (directions, size) standard deviations of that Gaussian.
        seed: of the sample of pairs.
    """
    some = density.sample(MEAN_SAMPLE, seed)

    def slope(vector: np.ndarray) -> np.ndarray:
        return some.slope(vector)[1]

    here, bent = slope(mode), np.zeros_like(mode)
    for step, weight in _steps(directions, seed):
        bent += weight * (slope(mode + step) + slope(mode - step) - 2 * here)
    shift = 0.5 * covariance @ bent
    distance = np.sqrt(0.5 * bent @ shift)
    return min(1.0, FURTHEST / max(distance, 1e-12)) * shift


def _steps(directions: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, float]]:
    """Steps whose weighted outer products sum to those of the directions.

    The directions themselves where they are few. Otherwise a few sums of all of them with random
    signs, which is unbiased (Hutchinson's estimate of a trace), with a step short enough for third
    derivatives to dominate.
    """
    if len(directions) <= MOST_DIRECTIONS:
        yield from ((step, 1.0) for step in directions)
        return
    signs = np.random.default_rng([seed, 12]).choice([-1.0, 1.0], (RANDOM_STEPS, len(directions)))
    for step in signs @ directions:
        yield STEP * step, 1 / (RANDOM_STEPS * STEP**2)


def bias_directions(density: Density, covariance: np.ndarray) -> np.ndarray:
    """(free contexts, size) standard deviations of position bias; the last layer responds."""
    free = density.prior.free
    factor = np.linalg.cholesky(covariance[:free, :free])
    return np.linalg.solve(factor, covariance[:free])

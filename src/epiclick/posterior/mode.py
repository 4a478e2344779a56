"""The most probable parameters: near them by BFGS, whose steps are cheap, then by Newton's method.

A Newton step needs the Hessian of all pairs, several times the work of a gradient. So the Hessian
is found once where the climb starts, of some of the pairs, and BFGS mends it from one gradient to
the next, until the mode is near. There the exact Hessian is found; one step by it leads to the
mode, which another gradient confirms.
"""

from typing import NamedTuple

import numpy as np

from epiclick.posterior.density import Curvature, Density

SETTLED = 1e-3
"""Standard deviations from the mode, in the direction of the next step, at which it is reached."""

NEAR = 0.1
"""Standard deviations within which the density is a Gaussian, so that its Hessian is the mode's."""

MOST_CHEAP_STEPS = 60
MOST_STEPS = 60
MOST_HALVINGS = 25
ROUNDING = 1e-15
LEAST_CURVATURE = 1e-8  # of the largest, so that no direction is flat

SAMPLE = 60_000
"""Pairs of which the Hessian at the start is found, where there are more."""


class Mode(NamedTuple):
    """Where the log density is highest, and its shape there.

    Attributes:
        vector: (size,) parameters.
        gradient: (size,) the density's there.
        curvature: derivatives and scores there, or less than NEAR from there.
    """

    vector: np.ndarray
    gradient: np.ndarray
    curvature: Curvature


def find_mode(density: Density, start: np.ndarray, seed: int = 0) -> Mode:
    """Climb from a start until a step leads no further than SETTLED, or nothing improves.

    Args:
        density: to be climbed.
        start: (size,) parameters.
        seed: of the sample of pairs that guides the climb.
    """
    vector = _climb(density, start, seed)
    here = density.curvature(vector)
    for _ in range(MOST_STEPS):
        spread = inverse(-here.hessian, density.prior.held)
        step = spread @ here.gradient
        squared = step @ here.gradient  # length of the step in standard deviations
        if squared < max(SETTLED**2, ROUNDING * abs(here.value)):
            break
        if squared < NEAR**2:
            gradient = density.slope(vector + step)[1]
            if gradient @ spread @ gradient < SETTLED**2:
                return Mode(vector + step, gradient, here)
        for halving in range(MOST_HALVINGS):
            there = density.curvature(vector + 0.5**halving * step)
            if there.value >= here.value:
                vector, here = vector + 0.5**halving * step, there
                break
        else:
            break
    return Mode(vector, here.gradient, here)


def _climb(density: Density, start: np.ndarray, seed: int) -> np.ndarray:
    """Parameters NEAR the mode, by BFGS from an inverse Hessian of some of the pairs."""
    vector, (value, gradient) = start, density.slope(start)
    spread = inverse(-_hessian_of_some(density, start, seed), density.prior.held)
    for _ in range(MOST_CHEAP_STEPS):
        step = spread @ gradient
        if step @ gradient < NEAR**2 / 4:  # by a Hessian that is itself not exact
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
        if moved @ bent > 0:  # else the density bends upwards, of which BFGS cannot learn
            spread = _mended(spread, moved, bent)
    return vector


def _mended(spread: np.ndarray, moved: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """The nearest inverse Hessian that turns the change of the gradient into the step taken."""
    share = 1 / (moved @ bent)
    turned = spread @ bent
    return (
        spread
        - share * (np.outer(moved, turned) + np.outer(turned, moved))
        + share * (1 + share * bent @ turned) * np.outer(moved, moved)
    )


def _hessian_of_some(density: Density, vector: np.ndarray, seed: int) -> np.ndarray:
    """(size, size) second derivatives, those of the likelihood from a sample of the pairs."""
    some, factor = density.sample(SAMPLE, seed)
    assumed = density.prior.hessian(vector)
    return assumed + factor * (some.curvature(vector).hessian - assumed)


def inverse(matrix: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    """Inverse of a symmetric matrix, as if its eigenvalues were positive and none too small.

    Parameters that are `held` (size,) are inverted apart: beside their curvature all others would
    look flat.
    """
    if held is not None and held.any():
        found, rest = np.zeros_like(matrix), np.ix_(~held, ~held)
        found[held, held] = 1 / np.diag(matrix)[held]
        found[rest] = inverse(matrix[rest])
        return found
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.maximum(np.abs(values), LEAST_CURVATURE * np.abs(values).max())
    return (vectors / values) @ vectors.T

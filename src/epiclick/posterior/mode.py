"""The most probable parameters, by Newton's method with the exact Hessian."""

from typing import NamedTuple

import numpy as np

from epiclick.posterior.density import Curvature, Density

SETTLED = 1e-6  # largest partial derivative of the log density at a mode
MOST_STEPS = 60
MOST_HALVINGS = 25
ROUNDING = 1e-15
LEAST_CURVATURE = 1e-8  # of the largest, so that no direction is flat


class Mode(NamedTuple):
    """Where the log density is highest, and its shape there.

    Attributes:
        vector: (size,) parameters.
        curvature: derivatives and scores there.
    """

    vector: np.ndarray
    curvature: Curvature


def find_mode(density: Density, start: np.ndarray) -> Mode:
    """Climb from a start until no partial derivative exceeds SETTLED, or nothing improves."""
    vector, here = start, density.curvature(start)
    for _ in range(MOST_STEPS):
        if np.abs(here.gradient).max() < SETTLED:
            break
        step = inverse(-here.hessian, density.prior.held) @ here.gradient
        if step @ here.gradient < ROUNDING * abs(here.value):
            break  # what could be gained is less than values are known to
        for halving in range(MOST_HALVINGS):
            there = density.curvature(vector + 0.5**halving * step)
            if there.value >= here.value:
                vector, here = vector + 0.5**halving * step, there
                break
        else:
            break
    return Mode(vector, here)


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

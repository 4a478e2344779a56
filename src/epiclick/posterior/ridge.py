r"""A posterior that is curved along one parameter.

Where unattractive items can be clicked, the clicks determine lines in relevance rather than the
parameters themselves: if B at the anchor rises, every other B and the level of attraction follow,
along a curve on which all clicks stay as likely. A Gaussian in the parameters leaves that curve:
its draws predict other clicks than were seen, and on average too many.

So with psi the parameter, s the response of all parameters to a standard deviation of it under the
Gaussian, and m(psi) the mode of all others given psi, a draw of the Gaussian, delta, becomes

.. math:: v = c + s z + K(z) + (\delta - s z), \qquad z = \delta_\psi / \sigma_\psi, \qquad
          K(z) \approx m(\psi(z)) - m(\psi(0)) - s z,

where the last move is made by `ClickModel.moved`. psi(z) are quantiles of its profile density
exp(l(m(psi))), in place of a Gaussian. K is a cubic polynomial through 0, and c is m(psi(0)), moved
from the mode given psi to the mean by third derivatives: clicks bound each B on one side only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import minimize
from scipy.special import ndtr

from epiclick.fitted.parameters import CURVED, POWERS
from epiclick.posterior.density import Density
from epiclick.posterior.mode import mean_shift

STEP = 0.75
"""Distance of the first points of the curve from the mode, in standard deviations."""

GROWTH = 1.3
"""Each distance relative to the one before. In small logs one tail is long: B falls towards 0,
where clicks hardly depend on it."""

MOST_POINTS = 8
"""Points on each side of the mode, the last of them 18 standard deviations away."""

LOWEST = 8.0
"""Fall of the log density from the mode at which the curve ends."""

MOST_ITERATIONS = 40

SAMPLE = 100_000
"""Pairs that decide on the curve, at most. With 20,000 of 50,000 pairs the log density of the
sample, though corrected, rose again two standard deviations from the mode."""

HIGHER = 0.1
"""Rise of the log density above the mode at which the curve has gone astray."""

LEAST_VARIANCE = 1e-9
"""Relative to the largest; less is that of the parameter that is given."""

FINE = 400  # points of the profile density


class Curve(NamedTuple):
    """Modes given psi.

    Attributes:
        psi: (points,) in ascending order.
        vectors: (points, size) the parameters.
        values: (points,) log density, up to a constant.
    """

    psi: np.ndarray
    vectors: np.ndarray
    values: np.ndarray


class Bent(NamedTuple):
    """A Gaussian that follows a curve.

    Attributes:
        centre: (size,) c.
        ridge: (powers, size) coefficients of K; see `ParameterPosterior`.
    """

    centre: np.ndarray
    ridge: np.ndarray


def bend(
    density: Density, mode: np.ndarray, covariance: np.ndarray, parameter: int, seed: int
) -> Bent | None:
    """Follow the modes given one parameter; None if they lead astray.

    Args:
        density: of the parameters.
        mode: (size,) its maximum.
        covariance: (size, size) minus the inverse of the Hessian there.
        parameter: index of psi.
        seed: of the sample of pairs.
    """
    sd = np.sqrt(covariance[parameter, parameter])
    response = covariance[:, parameter] / sd
    some = density.sample(SAMPLE, seed)
    sloped: Sloped = density if some is density else Corrected.of(some, mode, covariance)
    curve = follow(sloped, mode, covariance, parameter)
    if not np.all(curve.values <= curve.values[curve.psi == mode[parameter]] + HIGHER):
        return None  # or not finite
    z = np.linspace(-CURVED, CURVED, 25)
    points = CubicSpline(curve.psi, curve.vectors)(_quantiles(curve, z))  # (nodes, size)
    centre = points[len(z) // 2]
    across = covariance - np.outer(response, response)
    shift = mean_shift(density, centre, across, _directions(across, density.prior.free), seed)
    away = points - centre - z[:, None] * response
    powers = z[:, None] ** np.array(POWERS)
    weight = np.exp(-(z**2) / 4)[:, None]
    ridge = np.linalg.lstsq(powers * weight, away * weight, rcond=None)[0]
    return Bent(centre + shift, ridge)


def _directions(covariance: np.ndarray, free: int) -> np.ndarray:
    """(directions, size) standard deviations of the first parameters, others responding.

    The covariance is singular: one of the parameters is given.
    """
    values, axes = np.linalg.eigh(covariance[:free, :free])
    kept = values > LEAST_VARIANCE * values[-1]
    return (axes[:, kept] / np.sqrt(values[kept])).T @ covariance[:free]


class Sloped(Protocol):
    """A log density with its gradient."""

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density, up to a constant, and its gradient (size,)."""
        ...


@dataclass(frozen=True, eq=False)
class Corrected:
    """The density of a sample of the pairs, with the maximum and the Hessian of all of them.

    An estimate from a sample has another maximum. It may also be flat, or rise, in directions of
    the last layer that its pairs leave open, and its modes then lead far away.

    Attributes:
        density: of the sample.
        mode: (size,) maximum of the density of all pairs.
        gradient: (size,) that of the sample there.
        more: (size, size) Hessian of all pairs minus that of the sample.
    """

    density: Density
    mode: np.ndarray
    gradient: np.ndarray
    more: np.ndarray

    @classmethod
    def of(cls, density: Density, mode: np.ndarray, covariance: np.ndarray) -> "Corrected":
        """Correct a sample, given minus the inverse of the Hessian of all pairs."""
        here = density.curvature(mode)
        return cls(density, mode, here.gradient, -np.linalg.inv(covariance) - here.hessian)

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density, up to a constant, and its gradient (size,)."""
        value, slope = self.density.slope(vector)
        away = vector - self.mode
        bent = self.more @ away
        return value - self.gradient @ away + bent @ away / 2, slope - self.gradient + bent


def follow(density: Sloped, mode: np.ndarray, covariance: np.ndarray, parameter: int) -> Curve:
    """The curve through the mode, in both directions.

    Args:
        density: of the parameters.
        mode: (size,) where the curve begins.
        covariance: (size, size) of the Gaussian there.
        parameter: index of psi.
    """
    sd = np.sqrt(covariance[parameter, parameter])
    response = covariance[:, parameter] / sd
    # directions of everything but psi, scaled to standard deviations
    values, axes = np.linalg.eigh(covariance - np.outer(response, response))
    across = axes * np.sqrt(np.maximum(values, 0))
    across[parameter] = 0

    def highest(start: np.ndarray) -> tuple[np.ndarray, float]:
        def fall(away: np.ndarray) -> tuple[float, np.ndarray]:
            vector = start + across @ away
            value, slope = density.slope(vector)
            return -value, -across.T @ slope

        found = minimize(
            fall,
            np.zeros(len(start)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": MOST_ITERATIONS, "ftol": 1e-10, "gtol": 1e-3},
        )
        return start + across @ found.x, -float(found.fun)

    top = density.slope(mode)[0]

    def points(sign: int) -> Iterator[tuple[np.ndarray, float]]:
        before, here, step = mode - sign * STEP * response, mode, 1.0
        for _ in range(MOST_POINTS):
            vector, value = highest(here + step * (here - before))  # the curve goes on as it came
            yield vector, value
            if value < top - LOWEST:
                return
            before, here, step = here, vector, GROWTH

    below, above = list(points(-1)), list(points(1))
    every = [*below[::-1], (mode, top), *above]
    vectors = np.stack([vector for vector, _ in every])
    return Curve(vectors[:, parameter], vectors, np.array([value for _, value in every]))


def _quantiles(curve: Curve, z: np.ndarray) -> np.ndarray:
    """psi at standard normal scores, from its profile density."""
    psi = np.linspace(curve.psi[0], curve.psi[-1], FINE)
    height = CubicSpline(curve.psi, curve.values)(psi)
    weight = np.exp(height - height.max())
    total = np.cumsum((weight[1:] + weight[:-1]) / 2)
    share = np.concatenate([[0.0], total]) / total[-1]
    kept = np.r_[True, np.diff(share) > 0]
    return PchipInterpolator(share[kept], psi[kept])(ndtr(z))

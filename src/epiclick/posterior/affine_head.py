r"""Relevance of pairs with many displays where unattractive items are clicked too.

Clicks and skips are both forms u_i zeta + v_i (1 - zeta), n_i of each. In x = logit(zeta) the
posterior of attraction is proportional to

.. math:: g(x) = \zeta^a (1 - \zeta)^b \prod_i \big(u_i \zeta + v_i (1 - \zeta)\big)^{n_i},

which has one mode (each logarithm is concave in zeta). Its left tail is exp(a x) once zeta is so
small that all forms are v_i, and is added in closed form from there on:

.. math:: \int_{-\infty}^{x} g \approx g(x) / a, \qquad
          \zeta \Big(a + b + \sum_i n_i \frac{|u_i - v_i|}{v_i}\Big) < 10^{-9}.

Without clicks on unattractive items v_i of a click is 0, and that point does not exist; see
`pair_posterior.HeadPosterior`, which integrates by parts.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from epiclick.posterior.pair_posterior import (
    LOWEST,
    MODE_HALVINGS,
    NEGLIGIBLE,
    PANEL,
    REACH_HALVINGS,
    interpolated,
    inverted,
    turning_point,
)
from epiclick.relevance.average import HIGHEST, as_logit

NODES = 192
"""Steps of the grid. The probability below a quantile was off by at most 4e-6 in 500 pairs with a
and b from 1e-3 to 30, 17 to 100,000 displays, and B/A from 1e-4 to 0.4."""

STRAIGHT = 1e-9  # relative error of the tail in closed form


@dataclass(frozen=True, eq=False)
class AffineHead:
    """Attraction of pairs given their clicks and skips; functions of x take (..., pairs).

    Attributes:
        u: (forms, pairs), or (forms, 1) if the same for all pairs.
        v: as u; above 0 where the form has displays.
        displays: (forms, pairs) number of displays of each form.
        alpha: (pairs,) first parameter of the prior.
        beta: (pairs,) second parameter.
    """

    u: np.ndarray
    v: np.ndarray
    displays: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log g(x), not normalised."""
        zeta, other = special.expit(x), special.expit(-x)
        log_g = self.alpha * special.log_expit(x) + self.beta * special.log_expit(-x)
        for u, v, count in zip(self.u, self.v, self.displays, strict=True):
            log_g += special.xlogy(count, u * zeta + v * other)
        return log_g

    def fall(self, x: np.ndarray) -> np.ndarray:
        """Minus the derivative of log g."""
        zeta, other = special.expit(x), special.expit(-x)
        fall = self.beta * zeta - self.alpha * other
        for u, v, count in zip(self.u, self.v, self.displays, strict=True):
            form = np.where(count > 0, u * zeta + v * other, 1)
            fall -= count * (u - v) * zeta * other / form
        return fall

    def width(self, x: np.ndarray) -> np.ndarray:
        """Standard deviation of a Gaussian with the curvature of g at its mode x; at most 1."""
        zeta, other = special.expit(x), special.expit(-x)
        bend = self.alpha * other**2 + self.beta * zeta**2
        for u, v, count in zip(self.u, self.v, self.displays, strict=True):
            form = np.where(count > 0, u * zeta + v * other, 1)
            bend += count * ((u - v) * zeta * other / form) ** 2
        return np.minimum(1, bend**-0.5)

    def quantiles(self, probabilities: np.ndarray) -> np.ndarray:
        """The zeta below which attraction has each probability: (probabilities, pairs)."""
        x, cdf, density = self._grid
        found = [inverted(x, cdf, density, self.alpha, q) for q in probabilities]
        return special.expit(np.stack(found))

    def cdf(self, zeta: np.ndarray) -> np.ndarray:
        """P(attraction <= zeta), (pairs,), at one zeta per pair."""
        return np.where(zeta < 1, interpolated(*self._grid, self.alpha, as_logit(zeta)), 1)

    @cached_property
    def _grid(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logits, distribution function and density there: (nodes + 1, pairs) each."""
        pairs = len(self.alpha)
        start = self._straight_below()
        mode = turning_point(
            lambda x: self.fall(x) > 0,
            np.full(pairs, LOWEST),
            np.full(pairs, HIGHEST),
            MODE_HALVINGS,
        )
        # where alpha is small the mode may lie in the tail in closed form, all of the integral
        # right of it
        mode = np.maximum(mode, start + 1)
        width, top = self.width(mode), self.log_density(mode)

        def place(t: np.ndarray) -> np.ndarray:
            # nodes at equal steps of t are dense at the mode and sparse in the tails
            return mode + width * np.sinh(t)

        def reach(sign: int, end: np.ndarray) -> np.ndarray:
            return turning_point(
                lambda t: self.log_density(place(sign * t)) < top - NEGLIGIBLE,
                np.zeros(pairs),
                np.arcsinh(abs(end - mode) / width),
                REACH_HALVINGS,
            )

        left, right = reach(-1, start), reach(1, np.maximum(mode + 1, HIGHEST))
        step = (left + right) / NODES
        t = step * np.arange(-2, NODES + 3)[:, None] - left  # two more on either side, for the rule
        values = np.exp(self.log_density(place(t)) - top) * width * np.cosh(t) * step
        panels = sum(c * values[i : i + NODES] for i, c in enumerate(PANEL))
        x = place(t[2:-2])  # (nodes + 1, pairs)
        g = np.exp(self.log_density(x) - top)
        below = g[0] / np.maximum(-self.fall(x[0]), self.alpha)
        beyond = g[-1] / np.maximum(self.fall(x[-1]), self.beta * special.expit(x[-1]))
        integral = below + np.concatenate([np.zeros((1, pairs)), np.cumsum(panels, axis=0)])
        total = integral[-1] + beyond
        return x, integral / total, g / total

    def _straight_below(self) -> np.ndarray:
        """(pairs,) logits below which g is exp(alpha x)."""
        shown = self.displays > 0
        steep = np.where(shown, abs(self.u - self.v) / np.where(shown, self.v, 1), 0)
        return np.log(STRAIGHT / (self.alpha + self.beta + (self.displays * steep).sum(axis=0)))

r"""Relevance of pairs given their clicks: mixtures of Betas, numeric integration for many displays.

After the W unclicked displays of a pair, relevance is a mixture of Beta(p + n, b + W - n), where n
counts those that were attractive but not examined. Neighbours differ by one simple term,

.. math:: I_z(\alpha, \beta) - I_z(\alpha + 1, \beta - 1)
          = \frac{z^\alpha (1 - z)^{\beta - 1}}{\alpha B(\alpha, \beta)},

so the distribution function is that of the last component plus positive terms: one incomplete
beta function whatever W is, and no cancellation where it is small.

In u = logit(zeta) the posterior of a pair with p = a + M is proportional to

.. math:: g(u) = \zeta^p\, k(\zeta), \qquad
          k(\zeta) = (1 - \zeta)^b \prod_k (1 - \theta_k \zeta)^{W_k},

which has one mode. Without clicks and with a small alpha its left tail exp(p u) is thousands of
logits long. Integration by parts gives that tail in closed form; the remaining integrand is
positive and falls like exp((p + 1) u):

.. math:: p \int_{-\infty}^u g = g(u) + \int_{-\infty}^u \zeta\, g\, \Big(p + b + \sum_k W_k
          \frac{\theta_k (1 - \zeta)}{1 - \theta_k \zeta}\Big)\, du'.

Compared with 400,000 nodes, the probability below a quantile was off by at most 2e-7 in 500 pairs
with alpha and beta from 1e-3 to 30, 17 to 100,000 unclicked displays, and theta from 1e-6 to 1. The
Beta of the same mean and variance is no substitute: under a uniform prior the probability below its
5 % and 95 % points was off by 0.009 in half of 192 pairs, and by 0.04 in the worst.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from epiclick.beta import Beta
from epiclick.relevance.average import HIGHEST, as_logit, logit_quantile, matched_beta

SETTLED = 1e-6  # in logits of probability; the remaining error is about its square


@dataclass(frozen=True, eq=False)
class BetaMixture:
    """Mixtures of Beta(p + n, b + last - n), n = 0 ... last, one per pair.

    Attributes:
        weights: (pairs, components) summing to 1; 0 beyond `last`.
        alphas: (pairs, components) p + n.
        betas: (pairs, components) b + last - n.
        last: (pairs,) n of the last component.
    """

    weights: np.ndarray
    alphas: np.ndarray
    betas: np.ndarray
    last: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> "BetaMixture":
        """The mixtures of some pairs."""
        return BetaMixture(self.weights[rows], self.alphas[rows], self.betas[rows], self.last[rows])

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance: (pairs,) each."""
        total = self.alphas + self.betas
        means = self.alphas / total
        variances = means * (self.betas / total) / (total + 1)
        mean = (self.weights * means).sum(axis=1)
        between = (means - mean[:, None]) ** 2
        return mean, (self.weights * (variances + between)).sum(axis=1)

    def quantile(self, probability: float) -> np.ndarray:
        """The zeta below which each mixture has the given probability: (pairs,)."""
        pair, heaviest = np.arange(len(self.last)), self.weights.argmax(axis=1)
        alone = self.weights[pair, heaviest] == 1
        quantile = np.empty(len(pair))
        single = pair[alone], heaviest[alone]
        quantile[alone] = special.betaincinv(self.alphas[single], self.betas[single], probability)
        quantile[~alone] = special.expit(_logit_of_quantile(self[~alone], probability))
        return quantile

    def quantiles(self, probabilities: np.ndarray) -> np.ndarray:
        """The same at several probabilities: (probabilities, pairs)."""
        return np.stack([self.quantile(each) for each in probabilities])

    def cdf(self, zeta: np.ndarray) -> np.ndarray:
        """P(relevance <= zeta), (pairs,), at one zeta per pair."""
        cdf, _ = self.at(as_logit(zeta), self.log_scale())
        return np.clip(np.where(zeta < 1, cdf, 1), 0, 1)

    def log_scale(self) -> np.ndarray:
        """-log B of the first components: (pairs,)."""
        return _log_scale(self.alphas[:, 0], self.betas[:, 0])

    def at(self, logit: np.ndarray, log_scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distribution function at each pair's logit, and density of the logit there: (pairs,).

        Args:
            logit: (pairs,) of relevance.
            log_scale: (pairs,) from `log_scale()`, computed once for many logits.
        """
        pair = np.arange(len(self.last))
        odds, log_z, log_other = np.exp(logit), special.log_expit(logit), special.log_expit(-logit)
        a, b = self.alphas[pair, self.last], self.betas[pair, self.last]
        left = logit < 0  # the smaller of zeta and 1 - zeta has all significant digits
        near = special.betainc(
            np.where(left, a, b), np.where(left, b, a), np.exp(np.where(left, log_z, log_other))
        )
        cdf = np.where(left, near, 1 - near)
        # density of component n, from that of the one before
        each = np.exp(log_scale + self.alphas[:, 0] * log_z + self.betas[:, 0] * log_other)
        density, up_to = self.weights[:, 0] * each, self.weights[:, 0]
        for n in range(self.weights.shape[1] - 1):
            each = np.where(n < self.last, each / self.alphas[:, n], 0)
            cdf = cdf + up_to * each * (1 + odds)
            each = each * odds * (self.betas[:, n] - 1)
            density = density + self.weights[:, n + 1] * each
            up_to = up_to + self.weights[:, n + 1]
        return cdf, density


def _log_scale(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """-log B(alpha, beta)."""
    return Beta(alpha, beta).log_density_from_logs(0.0, 0.0)


def _logit_of_quantile(mixture: BetaMixture, probability: float) -> np.ndarray:
    """By Newton's method within a bracket: (pairs,).

    The first component is the lowest and the last one the highest, so with z = sigmoid(u)

        cdf <= exp(p u) / (p B(p, b + last)),  1 - cdf <= exp(-b u) / (b B(p + last, b)).
    """
    q, pair = probability, np.arange(len(mixture.last))
    p, log_scale = mixture.alphas[:, 0], mixture.log_scale()
    final = mixture.alphas[pair, mixture.last], mixture.betas[pair, mixture.last]
    low = (np.log(q * p) - log_scale) / p
    high = -(np.log((1 - q) * final[1]) - _log_scale(*final)) / final[1]
    high = np.minimum(high, HIGHEST)
    low = np.minimum(low, high)
    start = as_logit(matched_beta(*mixture.moments()).quantile(q))

    def at(pair: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return mixture[pair].at(u, log_scale[pair])

    return logit_quantile(at, np.full(len(pair), q), start, low, high, SETTLED)


NODES = 128
MODE_HALVINGS = 40
REACH_HALVINGS = 8
LOWEST = -60.0  # logits; no mode is lower, even after 1e18 displays
NEGLIGIBLE = 40.0  # the integrand is cut off this far below its peak, in logarithms
TINY = np.finfo(float).tiny
PANEL = np.array([11, -93, 802, 802, -93, 11]) / 1440
"""Integral over the third of five equal steps, exact for polynomials up to the fifth degree."""


@dataclass(frozen=True, eq=False)
class HeadPosterior:
    """Relevance of pairs given their clicks; functions of u take (..., pairs).

    Attributes:
        rest: (contexts,) 1 - theta; or (slots, pairs) where counts are by slots.
        p: (pairs,) alpha plus clicks.
        beta: (pairs,) second parameter of the prior.
        unclicked: (pairs, contexts) displays without a click, or (pairs, slots).
    """

    rest: np.ndarray
    p: np.ndarray
    beta: np.ndarray
    unclicked: np.ndarray

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """log g(u), not normalised."""
        z, other = special.expit(u), special.expit(-u)
        log_g = self.p * special.log_expit(u) + self.beta * special.log_expit(-u)
        for displays, rest in zip(self.unclicked.T, self.rest, strict=True):
            log_g += displays * np.log(other + rest * z)  # 1 - theta zeta
        return log_g

    def pull(self, u: np.ndarray) -> np.ndarray:
        """b + sum W theta (1 - zeta) / (1 - theta zeta), the pull of unclicked displays on u."""
        z, other = special.expit(u), special.expit(-u)
        pull = np.broadcast_to(self.beta, u.shape).copy()
        for displays, rest in zip(self.unclicked.T, self.rest, strict=True):
            pull += displays * (1 - rest) * other / (other + rest * z)
        return pull

    def log_integrand(self, u: np.ndarray) -> np.ndarray:
        """Logarithm of the remaining integrand."""
        return special.log_expit(u) + self.log_density(u) + np.log(self.p + self.pull(u))

    def fall(self, u: np.ndarray) -> np.ndarray:
        """Minus the derivative of log(zeta g), which is 0 at its only mode."""
        return special.expit(u) * self.pull(u) - (self.p + 1) * special.expit(-u)

    def width(self, u: np.ndarray) -> np.ndarray:
        """Standard deviation of a Gaussian with the curvature of zeta g at a mode u; at most 1."""
        z, other = special.expit(u), special.expit(-u)
        bend = (self.p + 1) * other**2 + self.beta * z**2
        for displays, rest in zip(self.unclicked.T, self.rest, strict=True):
            bend += displays * ((1 - rest) * z * other / (other + rest * z)) ** 2
        return np.minimum(1, bend**-0.5)

    def quantiles(self, probabilities: np.ndarray) -> np.ndarray:
        """The zeta below which relevance has each probability: (probabilities, pairs)."""
        u, cdf, density = self._grid
        return special.expit(
            np.stack([inverted(u, cdf, density, self.p, q) for q in probabilities])
        )

    def cdf(self, zeta: np.ndarray) -> np.ndarray:
        """P(relevance <= zeta), (pairs,), at one zeta per pair."""
        return np.where(zeta < 1, interpolated(*self._grid, self.p, as_logit(zeta)), 1)

    @cached_property
    def _grid(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logits, distribution function and density there: (nodes + 1, pairs) each."""
        pairs = len(self.p)
        mode = turning_point(
            lambda u: self.fall(u) > 0,
            np.full(pairs, LOWEST),
            np.full(pairs, HIGHEST),
            MODE_HALVINGS,
        )
        width, top = self.width(mode), self.log_integrand(mode)

        def place(t: np.ndarray) -> np.ndarray:
            # nodes at equal steps of t are dense at the mode and sparse in the tails
            return mode + width * np.sinh(t)

        def reach(sign: int, end: np.ndarray) -> np.ndarray:
            return turning_point(
                lambda t: self.log_integrand(place(sign * t)) < top - NEGLIGIBLE,
                np.zeros(pairs),
                np.arcsinh(abs(end - mode) / width),
                REACH_HALVINGS,
            )

        left, right = reach(-1, mode - 2 * NEGLIGIBLE), reach(1, np.maximum(mode, HIGHEST))
        step = (left + right) / NODES
        t = step * np.arange(-2, NODES + 3)[:, None] - left  # two more on either side, for the rule
        values = np.exp(self.log_integrand(place(t)) - top) * width * np.cosh(t) * step
        panels = sum(c * values[i : i + NODES] for i, c in enumerate(PANEL))
        u = place(t[2:-2])  # (nodes + 1, pairs)
        beyond = np.exp(self.log_integrand(u[-1]) - top) / self.fall(u[-1])
        integral = np.concatenate([np.zeros((1, pairs)), np.cumsum(panels, axis=0)])
        total = integral[-1] + beyond
        g = np.exp(self.log_density(u) - top)
        return u, (g + integral) / total, self.p * g / total


def turning_point(
    condition: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, halvings: int
) -> np.ndarray:
    """Where a condition that is false at `low` becomes true, from above; `high` if it does not."""
    for _ in range(halvings):
        middle = (low + high) / 2
        found = condition(middle)
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    return high


def inverted(
    u: np.ndarray, cdf: np.ndarray, density: np.ndarray, p: np.ndarray, probability: float
) -> np.ndarray:
    """Where the cdf has the given value, by cubic interpolation of u over logit(cdf): (pairs,).

    Below the first node the cdf falls like exp(p u); past the last one relevance is 1.

    Args:
        u: (nodes, pairs) ascending.
        cdf: (nodes, pairs) at u.
        density: (nodes, pairs) its derivative.
        p: (pairs,) exponent of the left tail.
        probability: strictly between 0 and 1.
    """
    after = np.clip((cdf < probability).sum(axis=0), 1, len(u) - 1)
    at, y, slope = _ends(u, cdf, density, after)
    inside = _cubic(special.logit(probability), y, at, 1 / slope)
    tail = u[0] + np.log(probability / np.maximum(cdf[0], TINY)) / p
    inside = np.where(cdf[0] > probability, tail, inside)
    return np.where(cdf[-1] < probability, HIGHEST, inside)


def interpolated(
    u: np.ndarray, cdf: np.ndarray, density: np.ndarray, p: np.ndarray, logit: np.ndarray
) -> np.ndarray:
    """The cdf at one logit per pair, by cubic interpolation of logit(cdf) over u: (pairs,)."""
    after = np.clip((u < logit).sum(axis=0), 1, len(u) - 1)
    at, y, slope = _ends(u, cdf, density, after)
    inside = special.expit(_cubic(logit, at, y, slope))
    tail = np.exp(p * np.minimum(logit - u[0], 0)) * cdf[0]
    return np.where(logit < u[0], tail, np.where(logit > u[-1], 1, inside))


def _ends(
    u: np.ndarray, cdf: np.ndarray, density: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """u, logit(cdf) and its slope at the nodes before and at `after`: (2, pairs) each."""
    ends = np.stack([after - 1, after]), np.arange(len(after))
    below = np.maximum(cdf[ends], TINY)
    above = np.maximum(1 - below, np.finfo(float).eps)
    slope = np.maximum(density[ends], TINY) / (below * above)
    return u[ends], np.log(below) - np.log(above), slope


def _cubic(x: np.ndarray | float, at: np.ndarray, y: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The cubic through two ends with given slopes, (2, pairs) each, kept between them."""
    span = at[1] - at[0]
    s = np.clip((x - at[0]) / span, 0, 1)
    inside = (
        y[0] * (1 + 2 * s) * (1 - s) ** 2
        + y[1] * (3 - 2 * s) * s**2
        + span * s * (1 - s) * (slope[0] * (1 - s) - slope[1] * s)
    )
    return np.clip(inside, y[0], y[1])

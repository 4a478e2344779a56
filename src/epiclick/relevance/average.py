r"""Relevance averaged over draws of a model's parameters, with numpy and scipy alone.

The average over draws j, each with a mean and a variance, has the moments (laws of total
expectation and variance)

.. math:: m = \overline{m_j}, \qquad v = \overline{v_j} + \overline{(m_j - m)^2},

and alpha and beta of an average are matched to them. Where draws differ, the lower tail of that
Beta is too light; intervals are therefore quantiles of the average itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from epiclick.beta import Beta

LOWEST = -745.0  # logits; below it relevance rounds to 0
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
    """The quantile of each pair at its probability, in logits: (pairs,).

    Newton's method on the logit of the distribution function, which is straight in both tails; a
    step that leaves the bracket is replaced by the bracket's middle.

    Args:
        at: the distribution of some pairs.
        probability: (pairs,) strictly between 0 and 1.
        start: (pairs,) initial guess, in logits.
        low: (pairs,) lower end of the bracket.
        high: (pairs,) upper end of the bracket.
        settled: once the logit of the probability is this close, one last step follows, after which
            the error is about its square.
    """
    low, high, pair = low.copy(), high.copy(), np.arange(len(start))
    u, wanted = np.clip(np.nan_to_num(start), low, high), scipy.special.logit(probability)
    for _ in range(MOST_STEPS):
        if not len(pair):
            break
        here = u[pair]
        cdf, density = at(pair, here)
        below = cdf < probability[pair]
        low[pair] = np.where(below, here, low[pair])
        high[pair] = np.where(below, high[pair], here)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # to nowhere: replaced
            gap = scipy.special.logit(cdf) - wanted[pair]
            there = here - gap * cdf * (1 - cdf) / density
        inside = (there >= low[pair]) & (there <= high[pair])
        there = np.where(inside, there, (low[pair] + high[pair]) / 2)
        u[pair] = there
        found = (inside & (abs(gap) < settled)) | (there == here)
        pair = pair[~found]
    return u


def as_logit(zeta: np.ndarray) -> np.ndarray:
    """logit(zeta), clipped to where float64 distinguishes zeta from 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.clip(scipy.special.logit(zeta), LOWEST, HIGHEST)


LEAST_MEAN = 1e-290  # a mean nearer to 0 leaves no room for a small alpha
MOST_CONFIDENCE = 1e15  # a Beta this narrow is a point in float64
LEAST_PROBABILITY = 1e-12  # lowest probability of a quantile; at 0 and 1 there is no logit
BLOCK = 8192  # pairs whose quantiles are computed at once
SETTLED = 3e-3  # in logits of the probability; leaves an error of about its square


def matched_beta(mean: np.ndarray, variance: np.ndarray) -> Beta:
    """The Betas of given mean and variance, clipped to what float64 can represent."""
    mu = np.clip(mean, LEAST_MEAN, 1 - np.finfo(float).epsneg)
    return Beta.from_moments(mu, np.maximum(variance, mu * (1 - mu) / MOST_CONFIDENCE))


def total_moments(means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance over all draws, (...,) each, from those of every draw, (draws, ...)."""
    mean = means.mean(axis=0)
    return mean, variances.mean(axis=0) + ((means - mean) ** 2).mean(axis=0)


@dataclass(frozen=True, eq=False)
class BetaAverage:
    """The average of one Beta per draw: a mixture with equal weights.

    Attributes:
        alpha: (draws, pairs).
        beta: (draws, pairs).
        floor: (draws,) each draw's Beta is stretched from 0 ... 1 to floor ... 1 (see
            `relevance.reported`); None for 0.
    """

    alpha: np.ndarray
    beta: np.ndarray
    floor: np.ndarray | None = None

    @cached_property
    def matched(self) -> Beta:
        """The Beta of the same mean and variance, (pairs,)."""
        if len(self.alpha) == 1 and self.floor is None:
            return Beta(self.alpha[0], self.beta[0])
        total = self.alpha + self.beta
        means = self.alpha / total
        variances = means * (self.beta / total) / (total + 1)
        if self.floor is not None:
            f = self.floor[:, None]
            means, variances = f + (1 - f) * means, (1 - f) ** 2 * variances
        return matched_beta(*total_moments(means, variances))

    def cdf(self, zeta: np.ndarray | float) -> np.ndarray:
        """P(relevance <= zeta), (pairs,); zeta is a number or (pairs,)."""
        if self.floor is not None:
            f = self.floor[:, None]
            zeta = np.clip((zeta - f) / (1 - f), 0, 1)
        return scipy.special.betainc(self.alpha, self.beta, zeta).mean(axis=0)

    def quantile(self, probability: np.ndarray | float) -> np.ndarray:
        """The quantile of each pair, (pairs,); probability is a number or (pairs,)."""
        if self.floor is not None:
            return self._quantile_from_floors(probability)
        if len(self.alpha) == 1:
            return self.matched.quantile(probability)
        pairs = self.alpha.shape[1]
        q = np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        start, q = as_logit(self.matched.quantile(q)), np.broadcast_to(q, pairs)
        logit = np.empty(pairs)
        for first in range(0, pairs, BLOCK):
            part = slice(first, first + BLOCK)
            size = len(q[part])
            logit[part] = logit_quantile(
                self._from(first),
                q[part],
                start[part],
                np.full(size, LOWEST),
                np.full(size, HIGHEST),
                SETTLED,
            )
        return scipy.special.expit(logit)

    def _quantile_from_floors(self, probability: np.ndarray | float) -> np.ndarray:
        """The same where draws have floors: in logits of the way from the lowest floor to 1."""
        assert self.floor is not None
        lowest, pairs = self.floor.min(), self.alpha.shape[1]
        q = np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        start = as_logit(np.clip((self.matched.quantile(q) - lowest) / (1 - lowest), 0, 1))
        q, logit = np.broadcast_to(q, pairs), np.empty(pairs)
        for first in range(0, pairs, BLOCK):
            part = slice(first, first + BLOCK)
            low, high = (np.full(len(q[part]), end) for end in (LOWEST, HIGHEST))
            logit[part] = logit_quantile(
                self._stretched_from(first), q[part], start[part], low, high, SETTLED
            )
        return lowest + (1 - lowest) * scipy.special.expit(logit)

    def _stretched_from(self, first: int) -> At:
        """`_stretched_at` for pairs numbered from `first`."""
        return lambda pair, u: self._stretched_at(first + pair, u)

    def _stretched_at(self, pair: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distribution function of some pairs at a logit each, and density of the logit there."""
        assert self.floor is not None
        f, a, b = self.floor[:, None], self.alpha[:, pair], self.beta[:, pair]
        lowest = f.min()
        way, rest = scipy.special.expit(u), scipy.special.expit(-u)
        # the way from each draw's own floor to 1, and what remains of it; below it there is nothing
        zeta = ((lowest - f) + (1 - lowest) * way) / (1 - f)
        other = (1 - lowest) / (1 - f) * rest
        inside = zeta > 0
        zeta = np.where(inside, zeta, 0.5)
        left = zeta < other
        near = scipy.special.betainc(
            np.where(left, a, b), np.where(left, b, a), np.where(left, zeta, np.minimum(other, 1))
        )
        cdf = np.where(inside, np.where(left, near, 1 - near), 0).mean(axis=0)
        log_density = (
            (a - 1) * np.log(zeta)
            + b * np.log(np.where(inside, other, 0.5))
            - self._log_beta[:, pair]
        )
        # d zeta / d u is way x other
        density = np.where(inside, np.exp(log_density), 0) * way
        return cdf, density.mean(axis=0)

    def _from(self, first: int) -> At:
        """`_at` for pairs numbered from `first`."""
        return lambda pair, u: self._at(first + pair, u)

    def _at(self, pair: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distribution function of some pairs at a logit each, and density of the logit there."""
        a, b = self.alpha[:, pair], self.beta[:, pair]
        left = u < 0  # the smaller of zeta and 1 - zeta carries all digits
        near = scipy.special.betainc(
            np.where(left, a, b), np.where(left, b, a), scipy.special.expit(-abs(u))
        ).mean(axis=0)
        log_density = (
            a * scipy.special.log_expit(u)
            + b * scipy.special.log_expit(-u)
            - self._log_beta[:, pair]
        )
        return np.where(left, near, 1 - near), np.exp(log_density).mean(axis=0)

    @cached_property
    def _log_beta(self) -> np.ndarray:
        return scipy.special.betaln(self.alpha, self.beta)


def beta_columns(
    betas: Beta, mean: np.ndarray, low: np.ndarray, high: np.ndarray, above: np.ndarray | None
) -> dict[str, np.ndarray]:
    """The columns of a table of items, (pairs,) each; with `prob_above` if `above` is given."""
    columns = {"mean": mean, "low": low, "high": high, "alpha": betas.alpha, "beta": betas.beta}
    return columns if above is None else {**columns, "prob_above": above}

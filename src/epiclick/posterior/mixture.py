r"""Relevance after few unclicked displays: a mixture of Betas, its moments and its quantiles.

After the W unclicked displays of a pair relevance is a mixture of Beta(p + n, b + W - n), where n
counts those that attracted but were not looked at. Neighbours differ by one simple term,

.. math:: I_z(\alpha, \beta) - I_z(\alpha + 1, \beta - 1)
          = \frac{z^\alpha (1 - z)^{\beta - 1}}{\alpha B(\alpha, \beta)},

so that the distribution function is that of the last component plus positive terms: one incomplete
beta function whatever W is, and no cancellation where it is small.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from epiclick.beta import Beta
from epiclick.relevance.average import matched_beta
from epiclick.relevance.quantiles import HIGHEST, as_logit, logit_quantile

SETTLED = 1e-6  # logits of probability; leaves an error of about its square


@dataclass(frozen=True, eq=False)
class BetaMixture:
    """Mixtures of Beta(p + n, b + last - n), n = 0 ... last, one a pair.

    Attributes:
        weights: (pairs, components) adding up to 1; 0 beyond `last`.
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
        """P(relevance <= zeta), (pairs,), at one zeta a pair."""
        cdf, _ = self.at(as_logit(zeta), self.log_scale())
        return np.clip(np.where(zeta < 1, cdf, 1), 0, 1)

    def log_scale(self) -> np.ndarray:
        """-log B of the first components: (pairs,)."""
        return _log_scale(self.alphas[:, 0], self.betas[:, 0])

    def at(self, logit: np.ndarray, log_scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distribution function at each pair's logit, and density of the logit there: (pairs,).

        Args:
            logit: (pairs,) of relevance.
            log_scale: (pairs,) from `log_scale()`, worked out once for many logits.
        """
        pair = np.arange(len(self.last))
        odds, log_z, log_other = np.exp(logit), special.log_expit(logit), special.log_expit(-logit)
        a, b = self.alphas[pair, self.last], self.betas[pair, self.last]
        left = logit < 0  # the smaller of zeta and 1 - zeta carries all digits
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

    The first component lies lowest and the last one highest, so that with z = sigmoid(u)

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

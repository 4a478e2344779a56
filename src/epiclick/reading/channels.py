r"""Outcomes whose number is known once it is known who went on, with their log-likelihoods.

`ItemChannel`: an outcome with a probability of each item's own, Beta(a, b) from a network: clicks
among displays that were read, satisfied users among clicks. Of t trials s succeed with probability

.. math:: \frac{B(a + s, b + t - s)}{B(a, b)}, \qquad a = \mu \nu, \quad b = (1 - \mu) \nu, \quad
          \mu = \sigma(x_1), \quad \nu = \log(1 + e^{x_2}) + 1,

up to the binomial coefficient, with raw outputs x = (h, 1) L of the last layer L.

`ContextChannel`: going on after a click, with a probability of each context, whose logit is a
parameter.

Both have derivatives in their part of the vector of parameters, by groups of queries.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from epiclick.likelihood.rising import log_rising, rising_curve, rising_slope
from epiclick.reading.stops import Shapes
from epiclick.relevance.heads import betas_of, probability, softplus


class Derivatives(NamedTuple):
    """Of a log-likelihood.

    Attributes:
        scores: (clusters, size) first derivatives by group of queries.
        curve: second derivatives, of each pair or context, from which the channel makes the
            information. They can be averaged over draws before.
    """

    scores: np.ndarray
    curve: np.ndarray


@dataclass(frozen=True, eq=False)
class ItemChannel:
    """Outcomes with a Beta of each item's own.

    Attributes:
        given: (pairs, units + 1) inputs of the last layer, and 1.
        cluster: (pairs,) group of queries.
        clusters: number of groups.
    """

    given: np.ndarray
    cluster: np.ndarray
    clusters: int

    @property
    def size(self) -> int:
        """Number of parameters: of the last layer, row by row, two outputs each."""
        return 2 * self.given.shape[1]

    def raw(self, layer: np.ndarray) -> np.ndarray:
        """(pairs, 2) outputs of the last layer, (size,)."""
        found: np.ndarray = self.given @ layer.reshape(-1, 2)
        return found

    def shapes(self, layer: np.ndarray) -> Shapes:
        """The Betas of all pairs."""
        raw = self.raw(layer)
        return Shapes(*betas_of(raw[:, 0], raw[:, 1], np, smooth=True))

    def value(self, raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> float:
        """Log-likelihood of the outcomes of all pairs, (pairs,) each, given `raw` outputs."""
        tried = np.flatnonzero(trials > 0)  # others say nothing
        return float(pair_log_likelihood(raw[tried], successes[tried], trials[tried]).sum())

    def derivatives(
        self, raw: np.ndarray, successes: np.ndarray, trials: np.ndarray
    ) -> Derivatives:
        """In the layer, of the outcomes of all pairs, (pairs,) each; curve is (pairs, 3)."""
        tried = np.flatnonzero(trials > 0)
        slope, curve = np.zeros((len(trials), 2)), np.zeros((len(trials), 3))
        slope[tried], curve[tried] = pair_derivatives(raw[tried], successes[tried], trials[tried])
        scores = np.empty((self.clusters, self.size))
        for output in range(2):
            scores[:, output::2] = self._weighted(slope[:, output]) @ self.given
        return Derivatives(scores, curve)

    def information(self, curve: np.ndarray) -> np.ndarray:
        """(size, size) minus the second derivatives in the layer, from those of all pairs."""
        units = self.given.shape[1]
        found = np.empty((units, 2, units, 2))
        for one in range(2):
            for other in range(one, 2):
                block = -(self.given * curve[:, one + other, None]).T @ self.given
                found[:, one, :, other] = block
                found[:, other, :, one] = block.T
        return found.reshape(self.size, self.size)

    def _weighted(self, weight: np.ndarray) -> csr_array:
        """(clusters, pairs) the weight, (pairs,), of the pairs that are in each group."""
        order, starts = self._by_cluster
        return csr_array((weight[order], order, starts), (self.clusters, len(order)))

    @cached_property
    def _by_cluster(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs in the order of their groups, and where each group starts and ends."""
        sizes = np.bincount(self.cluster, minlength=self.clusters)
        return np.argsort(self.cluster, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])


def pair_log_likelihood(raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """(pairs,) log-likelihood of outcomes, without binomial coefficients."""
    a, b = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
    return log_rising(a, successes) + log_rising(b, trials - successes) - log_rising(a + b, trials)


def pair_derivatives(
    raw: np.ndarray, successes: np.ndarray, trials: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in the raw outputs: (pairs, 2), and (pairs, 3) of second order (11, 12, 22)."""
    x, y = raw.T
    mean, other = probability(x, np), probability(-x, np)
    nu, rise = softplus(y, np) + 1, probability(y, np)
    a, b, failures = mean * nu, other * nu, trials - successes

    both, ab = -rising_slope(a + b, trials), -rising_curve(a + b, trials)
    by_a, by_b = rising_slope(a, successes) + both, rising_slope(b, failures) + both
    aa, bb = rising_curve(a, successes) + ab, rising_curve(b, failures) + ab
    # derivatives of a and b: b_x = -a_x
    a_x, a_y, b_y = mean * other * nu, mean * rise, other * rise
    bend = rise * probability(-y, np)
    slope = np.stack([a_x * (by_a - by_b), a_y * by_a + b_y * by_b], axis=1)
    curve = np.stack(
        [
            a_x**2 * (aa + bb - 2 * ab) + a_x * (other - mean) * (by_a - by_b),
            a_x * (a_y * aa - b_y * bb + (b_y - a_y) * ab) + mean * other * rise * (by_a - by_b),
            a_y**2 * aa + b_y**2 * bb + 2 * a_y * b_y * ab + bend * (mean * by_a + other * by_b),
        ],
        axis=1,
    )
    return slope, curve


@dataclass(frozen=True, eq=False)
class ContextChannel:
    """Outcomes with a probability of each context.

    Attributes:
        contexts: number of contexts, whose logits are the parameters.
        clusters: number of groups of queries.
    """

    contexts: int
    clusters: int

    def raw(self, logit: np.ndarray) -> np.ndarray:
        """(contexts,) the parameters themselves."""
        return logit

    def value(self, logit: np.ndarray, on: np.ndarray, clicks: np.ndarray) -> float:
        """Log-likelihood of the numbers of users who went on, among those who clicked."""
        return -float((on @ softplus(-logit, np) + (clicks - on) @ softplus(logit, np)).sum())

    def derivatives(self, logit: np.ndarray, on: np.ndarray, clicks: np.ndarray) -> Derivatives:
        """Of the numbers of users who went on and who clicked, (clusters, contexts) each.

        Curve is (contexts,).
        """
        chance, rest = probability(logit, np), probability(-logit, np)
        return Derivatives(on - clicks * chance, -clicks.sum(axis=0) * chance * rest)

    def information(self, curve: np.ndarray) -> np.ndarray:
        """(contexts, contexts) minus the second derivatives."""
        return np.diag(-curve)

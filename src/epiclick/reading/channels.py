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
from scipy import special
from scipy.sparse import csr_array

from epiclick.reading.stops import Shapes
from epiclick.relevance.heads import betas_of, probability, softplus


class Derivatives(NamedTuple):
    """Of a log-likelihood.

    Attributes:
        scores: (clusters, size) first derivatives by group of queries.
        information: (size, size) minus the second derivatives.
    """

    scores: np.ndarray
    information: np.ndarray


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

    def value(self, layer: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> float:
        """Log-likelihood of the outcomes of all pairs, (pairs,) each."""
        return float(pair_log_likelihood(self.raw(layer), successes, trials).sum())

    def derivatives(
        self, layer: np.ndarray, successes: np.ndarray, trials: np.ndarray
    ) -> Derivatives:
        """Of the outcomes of all pairs, (pairs,) each."""
        tried = np.flatnonzero(trials > 0)  # others say nothing
        slope, curve = pair_derivatives(self.raw(layer)[tried], successes[tried], trials[tried])
        given = self.given[tried]
        own = self._by_cluster[:, tried]
        scores = np.empty((self.clusters, self.size))
        information = np.empty((self.given.shape[1], 2, self.given.shape[1], 2))
        for one in range(2):
            scores[:, one::2] = own @ (given * slope[:, one, None])
            for other in range(one, 2):
                block = -(given * curve[:, one + other, None]).T @ given
                information[:, one, :, other] = block
                information[:, other, :, one] = block.T
        return Derivatives(scores, information.reshape(self.size, self.size))

    @cached_property
    def _by_cluster(self) -> csr_array:
        """(clusters, pairs) which pairs are in each group."""
        pairs = np.arange(len(self.cluster))
        shape = (self.clusters, len(pairs))
        return csr_array((np.ones(len(pairs)), (self.cluster, pairs)), shape)


def pair_log_likelihood(raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """(pairs,) log-likelihood of outcomes, without binomial coefficients."""
    a, b = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
    found: np.ndarray = special.betaln(a + successes, b + trials - successes) - special.betaln(a, b)
    return found


def pair_derivatives(
    raw: np.ndarray, successes: np.ndarray, trials: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in the raw outputs: (pairs, 2), and (pairs, 3) of second order (11, 12, 22)."""
    x, y = raw.T
    mean, other = probability(x, np), probability(-x, np)
    nu, rise = softplus(y, np) + 1, probability(y, np)
    a, b, failures = mean * nu, other * nu, trials - successes

    def differences(function: object) -> tuple[np.ndarray, np.ndarray]:
        """In a and in b, of a derivative of log-gamma functions."""
        assert callable(function)
        both = function(a + b) - function(a + b + trials)
        return (
            function(a + successes) - function(a) + both,
            function(b + failures) - function(b) + both,
        )

    by_a, by_b = differences(special.psi)
    aa, bb = differences(lambda z: special.polygamma(1, z))
    ab = special.polygamma(1, a + b) - special.polygamma(1, a + b + trials)
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

    def value(self, logit: np.ndarray, on: np.ndarray, stopped: np.ndarray) -> float:
        """Log-likelihood of the numbers of users who went on and who stopped."""
        return -float((on @ softplus(-logit, np) + stopped @ softplus(logit, np)).sum())

    def derivatives(self, logit: np.ndarray, on: np.ndarray, stopped: np.ndarray) -> Derivatives:
        """Of the numbers of users who went on and who stopped, (clusters, contexts) each."""
        chance, rest = probability(logit, np), probability(-logit, np)
        trials = on + stopped
        return Derivatives(
            on * rest - stopped * chance, np.diag(trials.sum(axis=0) * chance * rest)
        )

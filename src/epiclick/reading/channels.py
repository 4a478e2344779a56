r"""Outcomes whose number is known once it is known who went on, with their log-likelihoods.

`ItemChannel`: an outcome with a probability of each item's own, Beta(a, b) from a network: clicks
among displays that were read, satisfied users among clicks. Of t trials s succeed with probability

.. math:: \frac{B(a + s, b + t - s)}{B(a, b)}, \qquad a = \mu \nu, \quad b = (1 - \mu) \nu, \quad
          \mu = \sigma(x_1), \quad \nu = \log(1 + e^{x_2}) + 1,

up to the binomial coefficient, with raw outputs x = (h, 1) L of the last layer L.

`ContextChannel`: going on after a click, with a probability of each context, whose logit is a
parameter.

Both have derivatives in their part of the vector of parameters, by groups of queries. Outcomes have
a first axis of draws of who went on.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from epiclick.likelihood.rising import log_rising, rising_curve, rising_slope
from epiclick.reading.gibbs import Shapes
from epiclick.relevance.heads import betas_of, probability, softplus


class Derivatives(NamedTuple):
    """Of a log-likelihood.

    Attributes:
        scores: (draws, clusters, size) first derivatives by group of queries.
        curve: second derivatives, of each pair or context, summed over draws. From their average
            the channel makes the information.
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
        """Log-likelihood of outcomes given `raw` outputs, summed over draws.

        Args:
            raw: (pairs, 2).
            successes: (draws, pairs), or (pairs,) if they are the same in all draws.
            trials: (draws, pairs).
        """
        some = _Tried.of(raw, successes, trials)
        return float(pair_log_likelihood(*some.outcomes).sum())

    def gradient(self, raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
        """(size,) first derivatives in the layer, summed over draws; arguments as of `value`."""
        some = _Tried.of(raw, successes, trials)
        slope = np.zeros(raw.shape)
        slope[some.pairs] = pair_slope(*some.outcomes).sum(axis=0)
        found: np.ndarray = (self.given.T @ slope).ravel()
        return found

    def derivatives(
        self, raw: np.ndarray, successes: np.ndarray, trials: np.ndarray
    ) -> Derivatives:
        """In the layer; arguments as of `value`, curve is (pairs, 3)."""
        some = _Tried.of(raw, successes, trials)
        slope, curve = np.zeros((*trials.shape, 2)), np.zeros((len(raw), 3))
        slope[:, some.pairs], every = pair_derivatives(*some.outcomes)
        curve[some.pairs] = every.sum(axis=0)
        scores = np.empty((len(trials), self.clusters, self.size))
        for output in range(2):
            scores[..., output::2] = self._by_cluster(slope[..., output])
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

    def _by_cluster(self, weight: np.ndarray) -> np.ndarray:
        """(draws, clusters, units + 1) sums of `given` with weights (draws, pairs)."""
        order, starts = self._order
        draws, pairs = weight.shape
        begin = (starts[:-1] + pairs * np.arange(draws)[:, None]).ravel()
        where = (np.tile(order, draws), np.append(begin, weight.size))
        rows = csr_array((weight[:, order].ravel(), *where), (draws * self.clusters, pairs))
        return np.asarray(rows @ self.given).reshape(draws, self.clusters, -1)

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs in the order of their groups, and where each group starts and ends."""
        sizes = np.bincount(self.cluster, minlength=self.clusters)
        return np.argsort(self.cluster, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])


class _Tried(NamedTuple):
    """Pairs with trials in some draw; the others say nothing."""

    pairs: np.ndarray
    outcomes: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> "_Tried":
        """Those of outcomes (draws, pairs)."""
        pairs = np.flatnonzero(trials.any(axis=0))
        return cls(pairs, (raw[pairs], successes[..., pairs], trials[..., pairs]))


def pair_log_likelihood(raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """(..., pairs) log-likelihood of outcomes, without binomial coefficients; raw is (pairs, 2)."""
    a, b = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
    return log_rising(a, successes) + log_rising(b, trials - successes) - log_rising(a + b, trials)


def pair_slope(raw: np.ndarray, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """(..., pairs, 2) first derivatives of `pair_log_likelihood` in the raw outputs."""
    at = _Shape.of(raw)
    return at.to_raw(*at.slopes(successes, trials))


def pair_derivatives(
    raw: np.ndarray, successes: np.ndarray, trials: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same, and (..., pairs, 3) second derivatives (11, 12, 22)."""
    at = _Shape.of(raw)
    mean, other, rise, a, b, a_x, a_y, b_y = at
    by_a, by_b = at.slopes(successes, trials)
    ab = -rising_curve(a + b, trials)
    aa, bb = rising_curve(a, successes) + ab, rising_curve(b, trials - successes) + ab
    bend = rise * probability(-raw[:, 1], np)
    curve = np.stack(
        [
            a_x**2 * (aa + bb - 2 * ab) + a_x * (other - mean) * (by_a - by_b),
            a_x * (a_y * aa - b_y * bb + (b_y - a_y) * ab) + mean * other * rise * (by_a - by_b),
            a_y**2 * aa + b_y**2 * bb + 2 * a_y * b_y * ab + bend * (mean * by_a + other * by_b),
        ],
        axis=-1,
    )
    return at.to_raw(by_a, by_b), curve


class _Shape(NamedTuple):
    """Betas of pairs and their derivatives in the raw outputs, (pairs,) each; b_x is -a_x."""

    mean: np.ndarray
    other: np.ndarray
    rise: np.ndarray
    a: np.ndarray
    b: np.ndarray
    a_x: np.ndarray
    a_y: np.ndarray
    b_y: np.ndarray

    @classmethod
    def of(cls, raw: np.ndarray) -> "_Shape":
        """Those of raw outputs (pairs, 2)."""
        x, y = raw.T
        mean, other = probability(x, np), probability(-x, np)
        nu, rise = softplus(y, np) + 1, probability(y, np)
        turn = (mean * other * nu, mean * rise, other * rise)
        return cls(mean, other, rise, mean * nu, other * nu, *turn)

    def slopes(self, successes: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the log-likelihood in a and b, (..., pairs) each."""
        both = rising_slope(self.a + self.b, trials)
        failed = rising_slope(self.b, trials - successes)
        return rising_slope(self.a, successes) - both, failed - both

    def to_raw(self, by_a: np.ndarray, by_b: np.ndarray) -> np.ndarray:
        """(..., pairs, 2) derivatives in the raw outputs, from those in a and b."""
        by_y = self.a_y * by_a + self.b_y * by_b
        return np.stack([self.a_x * (by_a - by_b), by_y], axis=-1)


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
        """Log-likelihood of the numbers of users who went on, summed over draws.

        Args:
            logit: (contexts,).
            on: (draws, clusters, contexts) users who went on.
            clicks: (clusters, contexts) users who clicked.
        """
        return -float((on @ softplus(-logit, np) + (clicks - on) @ softplus(logit, np)).sum())

    def gradient(self, logit: np.ndarray, on: np.ndarray, clicks: np.ndarray) -> np.ndarray:
        """(contexts,) first derivatives, summed over draws; arguments as of `value`."""
        found: np.ndarray = (on - clicks * probability(logit, np)).sum(axis=(0, 1))
        return found

    def derivatives(self, logit: np.ndarray, on: np.ndarray, clicks: np.ndarray) -> Derivatives:
        """Arguments as of `value`; curve is (contexts,)."""
        chance, rest = probability(logit, np), probability(-logit, np)
        curve = -len(on) * clicks.sum(axis=0) * chance * rest
        return Derivatives(on - clicks * chance, curve)

    def information(self, curve: np.ndarray) -> np.ndarray:
        """(contexts, contexts) minus the second derivatives."""
        return np.diag(-curve)

"""Relevance of some pairs given their clicks and one draw of the model's parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from epiclick.click_models.base import Emission
from epiclick.likelihood.exact import exact_posterior
from epiclick.likelihood.pairs import SWITCH_OVER, Bucket
from epiclick.likelihood.quadrature import quadrature_moments
from epiclick.posterior.heads import HeadPosterior
from epiclick.posterior.mixture import BetaMixture

MANY = 4096  # pairs with few unclicked displays that are worked on at once
SOME = 128  # a few pairs need not take the time of many
HEADS = 512  # the same of others, which take up to a hundred nodes each by context
PROGRAMS = (4, SWITCH_OVER)
"""Widths of programs: most pairs are narrow, and more programs would cost more than they save."""

Moments = tuple[np.ndarray, np.ndarray]  # mean and variance, (pairs,) each


@dataclass(frozen=True, eq=False)
class Few:
    """Pairs with up to SWITCH_OVER unclicked displays, at most MANY.

    Attributes:
        clicks: (pairs, contexts).
        order: (pairs, width) contexts of the unclicked displays, -1 where there is none.
    """

    clicks: np.ndarray
    order: np.ndarray

    def moments(self, rest: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> Moments:
        """Mean and variance of relevance, for 1 - theta (contexts,) and a prior (pairs,)."""
        mean, variance = self._run(_mixture_moments, rest, alpha, beta)
        return mean, variance

    def posterior(
        self, rest: np.ndarray, alpha: np.ndarray, beta: np.ndarray
    ) -> tuple[Moments, BetaMixture]:
        """The same, and relevance itself."""
        width = self.order.shape[1]
        parts = self._run(_mixture, rest, alpha, beta)
        weights, alphas, betas = (part[:, : width + 1] for part in parts)
        mixture = BetaMixture(weights, alphas, betas, last=(self.order >= 0).sum(axis=1))
        return mixture.moments(), mixture

    def _run(self, program: Callable[..., tuple[jax.Array, ...]], *given: np.ndarray) -> list:
        width = self.order.shape[1]
        wide = next(each for each in PROGRAMS if each >= width)
        order = np.pad(self.order, ((0, 0), (0, wide - width)), constant_values=-1)
        return _padded(program, MANY, *given, self.clicks, order)


@dataclass(frozen=True, eq=False)
class Heads:
    """Pairs with more unclicked displays, at most HEADS.

    Attributes:
        clicks: (pairs, contexts), or (pairs, slots).
        unclicked: likewise.
        slots: (pairs, slots) contexts of the counts, where they are not of all contexts.
    """

    clicks: np.ndarray
    unclicked: np.ndarray
    slots: np.ndarray | None = None

    def moments(self, rest: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> Moments:
        """Mean and variance of relevance, for 1 - theta (contexts,) and a prior (pairs,)."""
        columns = (alpha, beta, self.clicks, self.unclicked)
        if self.slots is None:
            mean, variance = _padded(_head_moments, HEADS, rest, *columns)
        else:
            mean, variance = _padded(_slot_moments, HEADS, rest, *columns, self.slots)
        return mean, variance

    def posterior(
        self, rest: np.ndarray, alpha: np.ndarray, beta: np.ndarray
    ) -> tuple[Moments, HeadPosterior]:
        """The same, and relevance itself."""
        own = rest if self.slots is None else rest[self.slots].T
        known = HeadPosterior(own, alpha + self.clicks.sum(axis=1), beta, self.unclicked)
        return self.moments(rest, alpha, beta), known


def pairs_of(bucket: Bucket, rows: np.ndarray) -> Few | Heads:
    """Some pairs of a bucket."""
    clicks = np.asarray(bucket.clicks)[rows].astype(np.float64)
    if bucket.order is None:
        slots = None if bucket.slots is None else np.asarray(bucket.slots)[rows]
        return Heads(clicks, np.asarray(bucket.unclicked)[rows].astype(np.float64), slots)
    return Few(clicks, np.asarray(bucket.order)[rows])


def _moments_of_mixture(emission: Emission, *given: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What `BetaMixture.moments` gives, compiled."""
    weights, alphas, betas = exact_posterior(emission, *given)
    total = alphas + betas
    means = alphas / total
    mean = (weights * means).sum(axis=1)
    spread = means * (betas / total) / (total + 1) + (means - mean[:, None]) ** 2
    return mean, (weights * spread).sum(axis=1)


_mixture = jax.jit(exact_posterior)
_mixture_moments = jax.jit(_moments_of_mixture)
_head_moments = jax.jit(quadrature_moments)


@jax.jit
def _slot_moments(
    emission: Emission,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    slots: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """`quadrature_moments` of counts by slots."""
    return quadrature_moments(emission.at(slots), alpha, beta, clicks, unclicked)


def _padded(
    program: Callable[..., tuple[jax.Array, ...]], size: int, rest: np.ndarray, *columns: np.ndarray
) -> list[np.ndarray]:
    """What a program makes of up to `size` pairs, given as columns (pairs, ...).

    The first pair fills them up, so that a program compiles twice at most for logs of all sizes.
    """
    pairs = len(columns[0])
    size = SOME if pairs <= SOME < size else size
    index = np.r_[np.arange(pairs), np.zeros(size - pairs, int)]
    emission = Emission(1 - rest, rest)
    return [np.asarray(part)[:pairs] for part in program(emission, *(c[index] for c in columns))]

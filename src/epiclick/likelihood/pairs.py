"""The likelihood of a batch of pairs, each in the way that suits its number of unclicked displays.

Pairs of a batch are laid out in buckets of a fixed width, so that a program compiles once. Those
with up to `SWITCH_OVER` unclicked displays are summed in closed form, whose cost grows with the
square of the width; the others are integrated by quadrature, whose cost does not depend on it.
"""

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.likelihood.exact import log_attracted
from epiclick.likelihood.expansion import expanded_log_unclicked
from epiclick.likelihood.quadrature import quadrature_log_likelihood

Array: TypeAlias = jax.Array | np.ndarray

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Unclicked displays that a pair of each bucket may have; those with more go to one last bucket."""

SWITCH_OVER = WIDTHS[-1]
BUCKETS = len(WIDTHS) + 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bucket:
    """Counts of pairs that are treated alike.

    Attributes:
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
        order: (pairs, width) context of each display without a click, -1 where there is none; None
            for pairs with too many of them.
    """

    clicks: jax.Array
    unclicked: jax.Array
    order: jax.Array | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PairBatch:
    """Counts of a batch of pairs, bucket after bucket.

    Attributes:
        buckets: pairs of the batch, in its order.
        weight: (pairs,) how often each pair counts; 0 fills up a bucket.
    """

    buckets: tuple[Bucket, ...]
    weight: jax.Array

    @property
    def clicks(self) -> jax.Array:
        """(pairs, contexts) clicks of all pairs."""
        return jnp.concatenate([bucket.clicks for bucket in self.buckets])

    @property
    def unclicked(self) -> jax.Array:
        """(pairs, contexts) displays without a click of all pairs."""
        return jnp.concatenate([bucket.unclicked for bucket in self.buckets])


def bucket_of(unclicked: np.ndarray) -> np.ndarray:
    """Number of the bucket of pairs with so many unclicked displays; any shape."""
    return np.searchsorted(WIDTHS, unclicked)


def pair_log_likelihoods(
    theta: jax.Array, rest: jax.Array, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> jax.Array:
    r"""Log-likelihood of each pair under each position bias, relevance integrated out.

    .. math:: \log \mathcal{J}\!\!\mathcal{J}_{qd}(\theta^{(i)}) = \log E_{\zeta_{qd}}
              \Big[\prod_k (\theta_k^{(i)} \zeta)^{M_k} (1 - \theta_k^{(i)} \zeta)^{W_k}\Big]

    (paper, section 5.2), without binomial coefficients. Weights are left to the caller.

    Args:
        theta: (samples, contexts) position bias, in float64.
        rest: (samples, contexts) 1 - theta.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        batch: counts of the pairs.

    Returns:
        (samples, pairs).
    """
    parts = _by_bucket(theta, rest, alpha, beta, batch)
    clicked = jnp.log(theta) @ batch.clicks.T + log_attracted(alpha, beta, batch.clicks)
    return clicked + jnp.concatenate(jax.lax.optimization_barrier(parts), axis=1)


def log_likelihoods(
    theta: jax.Array, rest: jax.Array, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> jax.Array:
    """Log-likelihood of the whole batch under each position bias, weights counted: (samples,)."""
    parts = _by_bucket(theta, rest, alpha, beta, batch)
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    weights = jnp.split(jnp.asarray(batch.weight), ends)
    examined = jnp.log(theta) @ (batch.weight @ batch.clicks)
    attracted = log_attracted(alpha, beta, batch.clicks) @ batch.weight
    unclicked = sum(part @ weight for part, weight in zip(parts, weights, strict=True))
    return examined + attracted + unclicked


def _by_bucket(
    theta: jax.Array, rest: jax.Array, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> list[jax.Array]:
    """Log-probability of the unclicked displays given the clicks: (samples, pairs) a bucket.

    Barriers keep the compiler from fusing buckets with each other, which takes it several times as
    long and makes nothing faster.
    """
    # going through the polynomials again is faster than keeping them for the derivative
    closed_form = expanded_log_unclicked
    parts, start = [], 0
    for bucket in batch.buckets:
        own = slice(start, start := start + len(bucket.clicks))
        attractive = alpha[own] + bucket.clicks.sum(axis=1)  # a + M
        attractive, b = jax.lax.optimization_barrier((attractive, beta[own]))
        if bucket.order is not None:
            parts.append(closed_form(rest, attractive, b, bucket.order))
            continue
        quadrature = partial(
            quadrature_log_likelihood,
            alpha=attractive,
            beta=b,
            clicks=jnp.zeros_like(bucket.clicks),
            unclicked=bucket.unclicked,
        )
        # one bias after the other: heads are few, their nodes many
        parts.append(jax.lax.map(lambda bias, q=quadrature: q(*bias), (theta, rest)))
    return parts

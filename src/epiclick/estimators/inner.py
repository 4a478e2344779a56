r"""Weights of relevance samples under many position biases, in one pass over the biases.

For bias i and sample j of a pair, the paper's J (its section 5.2) is

.. math:: J_{ij} = \zeta_j^M \prod_{d} \big((1 - \zeta_j) + (1 - \theta^{(i)}_d) \zeta_j\big)

over the unclicked displays d, up to the clicks' thetas, which a pair's samples share. Wanted is the
sum over biases of the shares that the samples have under each,

.. math:: A_j = \sum_i \sigma_i(\log \tilde L) \frac{J_{ij}}{\sum_{j'} J_{ij'}}, \qquad
          \log \tilde L_i = \sum_{qd} \log \frac1S \sum_j J_{ij},

without holding more than one bias's J: the running sum is rescaled whenever a bias is more likely
than all before it. Buckets of pairs are kept apart, as joining them would cost as much as the rest.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from epiclick.estimators.base import Draws
from epiclick.estimators.joint import log_unclicked
from epiclick.likelihood.pairs import Array, Bucket, PairBatch

SMALLEST = 1e-30
"""Sums of products in float32 below this are not trusted."""


class Likelihoods(NamedTuple):
    """J of every sample of a bucket's pairs under one bias.

    Attributes:
        scaled: (pairs, samples) float32, J up to a factor of each pair.
        log_scale: (pairs, 1) float32, logarithm of that factor.
        total: (pairs, 1) float32, sum of `scaled` over samples.
    """

    scaled: jax.Array
    log_scale: jax.Array
    total: jax.Array


Likelihood: TypeAlias = Callable[[jax.Array], Likelihoods]
"""From a bias, given as log(1 - theta) (contexts,), to J of a bucket."""

State: TypeAlias = tuple[jax.Array, jax.Array, tuple[jax.Array, ...], jax.Array]
Bias: TypeAlias = tuple[jax.Array, jax.Array]


@jax.jit
def sampled_weights(batch: PairBatch, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Log-likelihood under each bias, (biases,) float64, and A, (pairs, samples) float32.

    Products of float32 are several times faster than sums of logarithms; should those of a pair
    leave its range, all is done again in logarithms.
    """
    log_likelihoods, weights, smallest = _accumulate(batch, draws, _products)
    return jax.lax.cond(
        smallest > SMALLEST,
        lambda: (log_likelihoods, weights),
        lambda: _accumulate(batch, draws, _exponentials)[:2],
    )


def _accumulate(
    batch: PairBatch, draws: Draws, way: Callable[[Bucket, Array, Array], Likelihood]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The sum over biases, and the smallest total of any pair under any bias."""
    logs = draws.relevance  # (pairs, samples)
    samples = logs[0].shape[1]
    clicks = jnp.dot(batch.weight, batch.clicks)  # (contexts,)
    pair_weights, likelihoods = [], []
    start = 0
    for bucket in batch.buckets:
        own = slice(start, start := start + len(bucket.clicks))
        pair_weights.append(batch.weight[own])
        likelihoods.append(way(bucket, logs[0][own], logs[1][own]))

    def add(state: State, bias: Bias) -> tuple[State, jax.Array]:
        most, share, weights, smallest = state
        log_theta, log_rest = bias
        buckets = [likelihood(log_rest) for likelihood in likelihoods]
        log_likelihood = jnp.dot(clicks, log_theta)
        for bucket, weight in zip(buckets, pair_weights, strict=True):
            log_mean = (bucket.log_scale + jnp.log(bucket.total / samples))[:, 0]
            log_likelihood += jnp.dot(weight, log_mean.astype(jnp.float64))
            smallest = jnp.minimum(smallest, bucket.total.min())
        now_most = jnp.maximum(most, log_likelihood)
        shrink, own = jnp.exp(most - now_most), jnp.exp(log_likelihood - now_most)
        weights = tuple(
            weight * shrink.astype(jnp.float32)
            + bucket.scaled * (own.astype(jnp.float32) / bucket.total)
            for weight, bucket in zip(weights, buckets, strict=True)
        )
        return (now_most, share * shrink + own, weights, smallest), log_likelihood

    state: State = (
        jnp.array(-jnp.inf, jnp.float64),
        jnp.array(0, jnp.float64),
        tuple(jnp.zeros((len(weight), samples), jnp.float32) for weight in pair_weights),
        jnp.array(jnp.inf, jnp.float32),
    )
    biases = (jnp.asarray(draws.log_theta), jnp.asarray(draws.log_rest))
    (_, share, weights, smallest), log_likelihoods = jax.lax.scan(add, state, biases)
    return log_likelihoods, jnp.concatenate(weights) / share.astype(jnp.float32), smallest


def _products(bucket: Bucket, log_zeta: Array, log_other: Array) -> Likelihood:
    """J as a product over displays, with what no bias changes computed once."""
    order = bucket.order
    if order is None:  # so many displays leave the range of any product
        return _exponentials(bucket, log_zeta, log_other)
    log_attracted = _clicks(bucket) * log_zeta
    log_scale = log_attracted.max(axis=1, keepdims=True)
    attracted = jnp.exp(log_attracted - log_scale)
    zeta, other = jnp.exp(log_zeta), jnp.exp(log_other)

    def likelihood(log_rest: jax.Array) -> Likelihoods:
        # a display that is missing, a -1 in `order`, counts as one that nobody looks at
        rest = jnp.append(jnp.exp(log_rest).astype(jnp.float32), 1)
        scaled = attracted
        for display in order.T:
            scaled = scaled * (other + rest[display][:, None] * zeta)
        return Likelihoods(scaled, log_scale, scaled.sum(axis=1, keepdims=True))

    return likelihood


def _exponentials(bucket: Bucket, log_zeta: Array, log_other: Array) -> Likelihood:
    """J as the exponential of a sum of logarithms, relative to the largest of each pair."""
    log_attracted = _clicks(bucket) * log_zeta

    def likelihood(log_rest: jax.Array) -> Likelihoods:
        unclicked = log_unclicked(
            log_zeta, log_other, log_rest[None], bucket.unclicked, bucket.slots
        )
        logs = log_attracted + unclicked
        log_scale = logs.max(axis=1, keepdims=True)
        scaled = jnp.exp(logs - log_scale)
        return Likelihoods(scaled, log_scale, scaled.sum(axis=1, keepdims=True))

    return likelihood


def _clicks(bucket: Bucket) -> jax.Array:
    """Clicks of each pair: (pairs, 1) float32."""
    return jnp.asarray(bucket.clicks).sum(axis=1, keepdims=True).astype(jnp.float32)

"""The likelihood at samples of position bias and relevance together (paper, section 4.1)."""

import jax
import jax.numpy as jnp

from epiclick.estimators.base import Betas, Draws
from epiclick.estimators.scores import weighted_log_density
from epiclick.likelihood.pairs import Array, PairBatch

SMALLEST = 1e-37
"""Sums in float32 below this are replaced by their larger part."""


def joint_log_likelihoods(batch: PairBatch, draws: Draws) -> jax.Array:
    r"""Log-likelihood of the batch at each joint sample of bias and relevance: (samples,) float64.

    .. math:: \log \tilde L^{(i)} = \sum_{qd} \sum_k M_k \log(\theta_k^{(i)} \zeta_{qd}^{(i)})
              + W_k \log(1 - \theta_k^{(i)} \zeta_{qd}^{(i)})

    Binomial coefficients are left out. A pair that counts twice does so with the same sample.
    """
    log_zeta, log_other = draws.relevance  # (pairs, samples)
    attracted = batch.total_clicks.astype(jnp.float32)[:, None] * log_zeta
    if batch.has_slots:
        by_bucket = zip(
            batch.by_pair(log_zeta), batch.by_pair(log_other), batch.buckets, strict=True
        )
        unclicked = jnp.concatenate(
            [
                log_unclicked(zeta, other, draws.log_rest, bucket.unclicked, bucket.slots)
                for zeta, other, bucket in by_bucket
            ]
        )
    else:
        unclicked = log_unclicked(log_zeta, log_other, draws.log_rest, batch.unclicked)
    by_context = batch.clicks_by_context(draws.log_theta.shape[1])
    examined = jnp.dot(draws.log_theta, by_context)  # (samples,)
    return examined + jnp.dot(batch.weight, (attracted + unclicked).astype(jnp.float64))


def joint_scores(
    relevance: Betas, position: Betas, batch: PairBatch, draws: Draws, weights: jax.Array
) -> jax.Array:
    r"""Surrogate of the paper's score-function gradient (sections 4.1 and 5.3); a scalar.

    .. math:: \sum_i w_i \big(\log p(\zeta^{(i)}) + \log p(\theta^{(i)})\big)

    Args:
        relevance: (pairs,) Betas.
        position: (contexts,) Betas.
        batch: counts of the pairs.
        draws: joint samples.
        weights: (samples,) float64.
    """
    of_pairs = weighted_log_density(relevance, *draws.relevance, weights)
    of_contexts = weighted_log_density(position, draws.log_theta.T, draws.log_rest.T, weights)
    return jnp.dot(batch.weight, of_pairs) + of_contexts.sum()


def log_unclicked(
    log_zeta: Array,
    log_other: Array,
    log_rest: Array,
    unclicked: Array,
    slots: Array | None = None,
) -> jax.Array:
    r"""Log-probability of the displays without a click at each sample: (pairs, samples) float32.

    .. math:: \sum_k W_k \log(1 - \theta_k \zeta), \qquad
              1 - \theta_k \zeta = (1 - \zeta) + (1 - \theta_k) \zeta

    One logarithm a context and sample. Where both parts leave the range of float32, the larger one
    stands for the sum, which is then at most log 2 more.

    Args:
        log_zeta: (pairs, samples) float32.
        log_other: (pairs, samples) float32, of 1 - relevance.
        log_rest: (samples or 1, contexts) float64, of 1 - position bias.
        unclicked: (pairs, contexts), or (pairs, slots).
        slots: (pairs, slots) contexts of the counts, where they are not of all contexts.
    """
    zeta, other = jnp.exp(log_zeta), jnp.exp(log_other)
    count = unclicked.astype(jnp.float32)
    total = jnp.zeros_like(log_zeta)
    for k in range(unclicked.shape[1]):
        # (samples,) of a context, (pairs, samples) of a slot
        own = log_rest[:, k] if slots is None else log_rest.T[slots[:, k]]
        rest = jnp.exp(own).astype(jnp.float32)
        larger = jnp.maximum(log_other, own.astype(jnp.float32) + log_zeta)
        unseen = other + rest * zeta
        log_unseen = jnp.where(unseen > SMALLEST, jnp.log(unseen), larger)
        total = total + count[:, k, None] * log_unseen
    return total

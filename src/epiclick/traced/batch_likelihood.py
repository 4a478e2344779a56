"""The likelihood of a batch of pairs, as a function that jax can trace and differentiate.

The sampled estimators and Markov chains need it under many emissions, or inside larger programs;
everything else uses the arrays of `epiclick.likelihood`, which need no compiling.
"""

import operator
from functools import partial, reduce

import jax
import jax.numpy as jnp

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.pairs import Bucket, PairBatch
from epiclick.traced.expansion import expanded_log_unclicked, log_attracted
from epiclick.traced.integrals import integral_log_likelihood

for _class in (Bucket, PairBatch):
    jax.tree_util.register_dataclass(_class)


def all_clicks(batch: PairBatch) -> jax.Array:
    """(pairs, contexts) clicks of all pairs, if counts cover all contexts."""
    assert not batch.has_slots
    return jnp.concatenate([bucket.clicks for bucket in batch.buckets])


def all_unclicked(batch: PairBatch) -> jax.Array:
    """(pairs, contexts) displays without a click of all pairs, if counts cover all contexts."""
    assert not batch.has_slots
    return jnp.concatenate([bucket.unclicked for bucket in batch.buckets])


def total_clicks(batch: PairBatch) -> jax.Array:
    """(pairs,) clicks in all contexts together."""
    return jnp.concatenate([bucket.clicks.sum(axis=1) for bucket in batch.buckets])


def by_bucket(batch: PairBatch, values: jax.Array) -> list[jax.Array]:
    """Values (pairs, ...) of the batch, bucket by bucket."""
    return [values[part] for part, _ in batch.parts()]


def clicks_by_context(batch: PairBatch, contexts: int) -> jax.Array:
    """(contexts,) weighted clicks of all pairs."""
    if not batch.has_slots:
        return batch.weight @ all_clicks(batch)
    total = jnp.zeros(contexts, jnp.float64)
    for part, bucket in batch.parts():
        total = total.at[bucket.slots].add(batch.weight[part][:, None] * bucket.clicks)
    return total


def pair_log_likelihoods(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> jax.Array:
    r"""Log-likelihood of each pair under each emission, relevance integrated out.

    .. math:: \log \mathcal{J}\!\!\mathcal{J}_{qd}(\theta^{(i)}) = \log E_{\zeta_{qd}}
              \Big[\prod_k (\theta_k^{(i)} \zeta)^{M_k} (1 - \theta_k^{(i)} \zeta)^{W_k}\Big]

    (paper, section 5.2), without binomial coefficients and weights.

    Args:
        emission: (samples, contexts) probabilities of a click, in float64.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        batch: counts of the pairs, laid out for an affine emission if this one is.

    Returns:
        (samples, pairs).
    """
    parts = _by_bucket(emission, alpha, beta, batch)
    joined = jnp.concatenate(jax.lax.optimization_barrier(parts), axis=1)
    if emission.is_affine:
        return joined
    log_theta = jnp.log(emission.attractive)
    examined = [bucket.over_contexts(log_theta) for bucket in batch.buckets]
    clicked = jnp.concatenate(examined, axis=1) + log_attracted(alpha, beta, total_clicks(batch))
    return clicked + joined


def log_likelihoods(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> jax.Array:
    """Weighted log-likelihood of the whole batch under each emission: (samples,)."""
    parts = _by_bucket(emission, alpha, beta, batch)
    weights = by_bucket(batch, batch.weight)
    each = [part @ weight for part, weight in zip(parts, weights, strict=True)]
    displays = reduce(operator.add, each)
    if emission.is_affine:
        return displays
    log_theta = jnp.log(emission.attractive)
    examined = log_theta @ clicks_by_context(batch, log_theta.shape[1])
    attracted = log_attracted(alpha, beta, total_clicks(batch)) @ batch.weight
    return examined + attracted + displays


def _by_bucket(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> list[jax.Array]:
    """Log-probability of the displays in the sum: (samples, pairs) per bucket.

    These are the unclicked displays, given the clicks; all displays if the emission is affine.

    Barriers keep the compiler from fusing buckets with each other, which multiplies the compile
    time and makes nothing faster.
    """
    parts = []
    for own, bucket in batch.parts():
        attractive = alpha[own]
        if not emission.is_affine:
            attractive = attractive + bucket.clicks.sum(axis=1)  # a + M
        attractive, b = jax.lax.optimization_barrier((attractive, beta[own]))
        if bucket.order is not None:
            parts.append(expanded_log_unclicked(emission, attractive, b, bucket.order))
            continue
        quadrature = partial(
            integral_log_likelihood,
            alpha=attractive,
            beta=b,
            clicks=bucket.clicks if emission.is_affine else jnp.zeros_like(bucket.clicks),
            unclicked=bucket.unclicked,
        )
        # one emission at a time: these pairs are few, their nodes many
        parts.append(jax.lax.map(lambda one, b=bucket, q=quadrature: q(b.at(one)), emission))
    return parts

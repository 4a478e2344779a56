r"""The likelihood by Monte Carlo over relevance, as the paper has it (its section 5.2).

.. math:: \tilde{\mathcal J}(\theta) = \frac{1}{S} \sum_{j=1}^{S} \prod_k
          (\theta_k \zeta^{(j)})^{M_k} (1 - \theta_k \zeta^{(j)})^{W_k}, \qquad
          \zeta^{(j)} \sim Beta(\alpha, \beta)

Samples come as logarithms: those of a Beta with parameters of 1e-3 are not representable otherwise.
"""

import jax
import jax.numpy as jnp


def sampled_log_likelihood(
    theta: jax.Array,
    rest: jax.Array,
    log_zeta: jax.Array,
    log_other: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
) -> jax.Array:
    """Logarithm of the mean over samples of each pair's likelihood: (pairs,).

    Args:
        theta: (contexts,) position bias.
        rest: (contexts,) 1 - theta.
        log_zeta: (pairs, samples) logarithms of sampled relevance.
        log_other: (pairs, samples) logarithms of 1 - relevance.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
    """
    each = log_likelihood_of_samples(theta, rest, log_zeta, log_other, clicks, unclicked)
    return jax.nn.logsumexp(each, axis=1) - jnp.log(each.shape[1])


def log_likelihood_of_samples(
    theta: jax.Array,
    rest: jax.Array,
    log_zeta: jax.Array,
    log_other: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
) -> jax.Array:
    """Logarithm of the likelihood at each sample, the paper's J: (pairs, samples)."""
    total = clicks.sum(axis=1, keepdims=True)
    clicked = (clicks * jnp.log(theta)).sum(axis=1, keepdims=True) + total * log_zeta
    # 1 - theta zeta = (1 - zeta) + (1 - theta) zeta, a sum of positive terms
    unseen = jnp.exp(log_other)[:, :, None] + rest * jnp.exp(log_zeta)[:, :, None]
    # without displays there is nothing to say, even where relevance rounds to 1 and theta is 1
    smallest = jnp.finfo(unseen.dtype).tiny
    log_unseen = jnp.where(unclicked[:, None, :] > 0, jnp.log(jnp.maximum(unseen, smallest)), 0)
    return clicked + (unclicked[:, None, :] * log_unseen).sum(axis=-1)

r"""The likelihood by Monte Carlo over relevance, as in the paper (section 5.2).

.. math:: \tilde{\mathcal J}(\theta) = \frac{1}{S} \sum_{j=1}^{S} \prod_k
          (\theta_k \zeta^{(j)})^{M_k} (1 - \theta_k \zeta^{(j)})^{W_k}, \qquad
          \zeta^{(j)} \sim Beta(\alpha, \beta)

Samples are logarithms, since samples of a Beta with parameters of 1e-3 underflow.
"""

import jax
import jax.numpy as jnp
from jax import Array

from epiclick.click_models.click_model import Emission


def sampled_log_likelihood(
    emission: Emission, log_zeta: Array, log_other: Array, clicks: Array, unclicked: Array
) -> Array:
    """Logarithm of the mean over samples of each pair's likelihood: (pairs,).

    Args:
        emission: (contexts,) probabilities of a click, or (pairs, slots) with counts by slots.
        log_zeta: (pairs, samples) logarithms of sampled relevance.
        log_other: (pairs, samples) logarithms of 1 - relevance.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
    """
    each = log_likelihood_of_samples(emission, log_zeta, log_other, clicks, unclicked)
    return jax.nn.logsumexp(each, axis=1) - jnp.log(each.shape[1])


def log_likelihood_of_samples(
    emission: Emission, log_zeta: Array, log_other: Array, clicks: Array, unclicked: Array
) -> Array:
    """Logarithm of the likelihood at each sample, the paper's J: (pairs, samples)."""
    if emission.is_affine:
        return _affine(emission, log_zeta, log_other, clicks, unclicked)
    rest = emission.attractive_rest
    rest = rest[:, None] if rest.ndim == 2 else rest
    total = clicks.sum(axis=1, keepdims=True)
    examined = (clicks * jnp.log(emission.attractive)).sum(axis=1, keepdims=True)
    clicked = examined + total * log_zeta
    # 1 - theta zeta = (1 - zeta) + (1 - theta) zeta, a sum of positive terms
    unseen = jnp.exp(log_other)[:, :, None] + rest * jnp.exp(log_zeta)[:, :, None]
    return clicked + _log_product(unseen, unclicked)


def _affine(
    emission: Emission, log_zeta: Array, log_other: Array, clicks: Array, unclicked: Array
) -> Array:
    """The same if unattractive items are clicked too: clicks and skips are both affine in zeta."""
    a, a_rest, b, b_rest = (part[:, None] if part.ndim == 2 else part for part in emission)
    zeta, other = jnp.exp(log_zeta)[:, :, None], jnp.exp(log_other)[:, :, None]
    clicked = _log_product(a * zeta + b * other, clicks)
    return clicked + _log_product(a_rest * zeta + b_rest * other, unclicked)


def _log_product(probability: Array, count: Array) -> Array:
    """Sum over contexts of count times log-probability: (pairs, samples).

    Contexts without displays contribute 0, even where a probability rounds to 0.
    """
    smallest = jnp.finfo(probability.dtype).tiny
    log = jnp.where(count[:, None, :] > 0, jnp.log(jnp.maximum(probability, smallest)), 0)
    return (count[:, None, :] * log).sum(axis=-1)

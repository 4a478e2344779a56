"""Score functions: log-densities of samples, to be differentiated for the Beta's parameters."""

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln

from epiclick.estimators.base import Betas
from epiclick.likelihood.pairs import Array


def weighted_log_density(
    betas: Betas, log_x: Array, log_rest: Array, weights: jax.Array
) -> jax.Array:
    r"""Weighted sum of the log-densities of each Beta's samples: (betas,) float64.

    .. math:: \sum_j w_j \log p(x_j \mid \alpha, \beta) = (\alpha - 1) \sum_j w_j \log x_j
              + (\beta - 1) \sum_j w_j \log(1 - x_j) - \log B(\alpha, \beta) \sum_j w_j

    Its gradient for alpha and beta is the weighted sum of scores. Sums over samples come first, so
    that nothing but two numbers a Beta is differentiated.

    Args:
        betas: (betas,).
        log_x: (betas, samples) logarithms of the samples.
        log_rest: (betas, samples) logarithms of 1 - the samples.
        weights: (betas, samples), or (samples,) if the same for all.
    """
    total, of_x, of_rest = (
        jax.lax.stop_gradient(each).sum(axis=-1, dtype=jnp.float64)
        for each in (weights, weights * log_x, weights * log_rest)
    )
    alpha, beta = betas.alpha, betas.beta
    log_beta_function = gammaln(alpha) + gammaln(beta) - gammaln(alpha + beta)
    return (alpha - 1) * of_x + (beta - 1) * of_rest - log_beta_function * total


def leave_one_out(weights: jax.Array) -> jax.Array:
    r"""Each weight minus the mean of the others along the last axis (paper, section 4.1).

    .. math:: w_i - \frac{1}{S - 1} \sum_{j \ne i} w_j

    The mean of the others does not depend on sample i, whose score has mean 0: it takes variance
    away and no more. This holds for weights of score functions alone.
    """
    others = weights.sum(axis=-1, keepdims=True) - weights
    return weights - others / (weights.shape[-1] - 1)

r"""The likelihood in closed form, by counting one display after the other.

Given position bias, a pair's relevance is zeta ~ Beta(a, b), and its clicks have probability

.. math:: E_\zeta\Big[\prod_k (\theta_k \zeta)^{M_k} (1 - \theta_k \zeta)^{W_k}\Big],

the paper's JJ (its section 5.2) without binomial coefficients. The M = sum M_k clicks turn the
Beta into Beta(a + M, b). An unclicked display was either not attractive, or attractive and not
looked at:

.. math:: 1 - \theta_k \zeta = (1 - \zeta) + r_k \zeta, \qquad r_k = 1 - \theta_k,

so after j of them relevance is a mixture of Beta(a + M + n, b + j - n), n of them having been of
the second kind, with weights p_n. The next one has the predictive probability

.. math:: s_j = \sum_n p_n \frac{(b + j - n) + r\,(a + M + n)}{a + b + M + j},

and the likelihood is the product of all s_j. All terms are positive, so nothing cancels; weights
are renormalised at each step, so nothing under- or overflows, in float32 either. It is the sum over
elementary symmetric polynomials of the r_k, built up so that each step is a probability.
"""

import jax
import jax.numpy as jnp

from epiclick.likelihood.rising import log_rising

UNROLLED = 4
"""Up to so many unclicked displays the steps are written out, which compiles to faster code."""


def exact_log_likelihood(
    theta: jax.Array,
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
) -> jax.Array:
    """Log-probability of each pair's clicks, without binomial coefficients: (pairs,).

    Args:
        theta: (contexts,) position bias, above 0; 1 is allowed.
        rest: (contexts,) 1 - theta, given apart so that it is exact near 1.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, width) context of each display without a click, -1 where there is none.
    """
    attractive = alpha + clicks.sum(axis=1)
    return log_clicked(theta, alpha, beta, clicks) + log_unclicked(
        rest, attractive, beta, unclicked
    )


def log_unclicked(
    rest: jax.Array, attractive: jax.Array, beta: jax.Array, unclicked: jax.Array
) -> jax.Array:
    """Log-probability of the unclicked displays given the clicks, attractive = a + M; (pairs,)."""
    return _count_unclicked(rest, attractive, beta, unclicked)[0]


def exact_posterior(
    rest: jax.Array, alpha: jax.Array, beta: jax.Array, clicks: jax.Array, unclicked: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Relevance given the clicks, a mixture of Betas: weights, alphas, betas (pairs, width + 1)."""
    attractive = alpha + clicks.sum(axis=1)
    _, weights = _count_unclicked(rest, attractive, beta, unclicked)
    count = (unclicked >= 0).sum(axis=1, keepdims=True)  # (pairs, 1)
    hidden = jnp.arange(unclicked.shape[1] + 1)  # n
    first = attractive[:, None] + hidden
    second = beta[:, None] + jnp.maximum(count - hidden, 0)
    return weights.T, first, second


def log_clicked(
    theta: jax.Array, alpha: jax.Array, beta: jax.Array, clicks: jax.Array
) -> jax.Array:
    r"""Log-probability of the clicks alone: prod theta_k^M_k times (a)_M / (a + b)_M; (pairs,)."""
    return (clicks * jnp.log(theta)).sum(axis=1) + log_attracted(alpha, beta, clicks)


def log_attracted(alpha: jax.Array, beta: jax.Array, clicks: jax.Array) -> jax.Array:
    """Log-probability that so many displays attract: log (a)_M / (a + b)_M; (pairs,)."""
    total = clicks.sum(axis=1).astype(alpha.dtype)
    return log_rising(alpha, total) - log_rising(alpha + beta, total)


def _count_unclicked(
    rest: jax.Array, attractive: jax.Array, beta: jax.Array, unclicked: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log-probability of the unclicked displays given the clicks, and the mixture weights after.

    Returns:
        (pairs,) and (width + 1, pairs).
    """
    pairs, width = unclicked.shape
    dtype = attractive.dtype
    hidden = jnp.arange(width + 1, dtype=dtype)[:, None]  # n, pairs last for speed
    shown = (unclicked >= 0).T  # (width, pairs)
    unseen = jnp.where(shown, rest[unclicked.T], 0)
    before = (jnp.cumsum(shown, axis=0) - shown).astype(dtype)  # j, whatever gaps there are

    def step(
        weights: jax.Array, display: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        counted, unseen, shown = display
        # weights beyond n = counted are 0; the maximum keeps their factors from being negative
        unattractive = weights * jnp.maximum(beta + (counted - hidden), 0)
        overlooked = weights * (attractive + hidden) * unseen
        grown = unattractive + jnp.concatenate([jnp.zeros_like(overlooked[:1]), overlooked[:-1]])
        grown = grown / (attractive + beta + counted)
        predictive = jnp.where(shown, grown.sum(axis=0), 1)
        return jnp.where(shown, grown / predictive, weights), jnp.log(predictive)

    start = jnp.zeros((width + 1, pairs), dtype).at[0].set(1)
    if width == 0:
        return jnp.zeros(pairs, dtype), start
    displays = (before, unseen, shown)
    few = width <= UNROLLED
    # recomputing a step in the backward pass is cheaper than keeping its arrays
    weights, logs = jax.lax.scan(
        step if few else jax.checkpoint(step), start, displays, unroll=width if few else 1
    )
    return logs.sum(axis=0), weights

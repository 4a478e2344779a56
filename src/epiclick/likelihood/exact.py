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

Where unattractive items are clicked as well, a click is no longer proportional to zeta. Clicks and
skips are then treated alike, as positive forms of zeta and 1 - zeta,

.. math:: P(\text{outcome}) = u\, \zeta + v\, (1 - \zeta), \qquad (u, v) = (A, B)
          \text{ or } (1 - A, 1 - B),

and with N displays in place of W, and M = 0, the same recursion has
s_j = sum_n p_n (v (b + j - n) + u (a + n)) / (a + b + j).
"""

import jax
import jax.numpy as jnp

from epiclick.click_models.base import Emission
from epiclick.likelihood.rising import log_rising

UNROLLED = 4
"""Up to so many displays the steps are written out, which compiles to faster code."""


def exact_log_likelihood(
    emission: Emission,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    order: jax.Array,
) -> jax.Array:
    """Log-probability of each pair's clicks, without binomial coefficients: (pairs,).

    Args:
        emission: (contexts,) probabilities of a click; that of an attractive item is above 0.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts) number of clicks; not used where the emission is affine.
        order: (pairs, width) displays, coded as in `Bucket`.
    """
    if emission.is_affine:
        return log_unclicked(emission, alpha, beta, order)
    attractive = alpha + clicks.sum(axis=1)
    return log_clicked(emission, alpha, beta, clicks) + log_unclicked(
        emission, attractive, beta, order
    )


def log_unclicked(
    emission: Emission, attractive: jax.Array, beta: jax.Array, order: jax.Array
) -> jax.Array:
    """Log-probability of the unclicked displays given the clicks, attractive = a + M; (pairs,).

    Where the emission is affine, that of all displays, and attractive = a.
    """
    return _count_displays(emission, attractive, beta, order)[0]


def exact_posterior(
    emission: Emission, alpha: jax.Array, beta: jax.Array, clicks: jax.Array, order: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Relevance given the clicks, a mixture of Betas: weights, alphas, betas (pairs, width + 1)."""
    attractive = alpha if emission.is_affine else alpha + clicks.sum(axis=1)
    _, weights = _count_displays(emission, attractive, beta, order)
    count = (order >= 0).sum(axis=1, keepdims=True)  # (pairs, 1)
    hidden = jnp.arange(order.shape[1] + 1)  # n
    first = attractive[:, None] + hidden
    second = beta[:, None] + jnp.maximum(count - hidden, 0)
    return weights.T, first, second


def log_clicked(
    emission: Emission, alpha: jax.Array, beta: jax.Array, clicks: jax.Array
) -> jax.Array:
    r"""Log-probability of the clicks alone: prod A_k^M_k times (a)_M / (a + b)_M; (pairs,)."""
    examined = (clicks * jnp.log(emission.attractive)).sum(axis=1)
    return examined + log_attracted(alpha, beta, clicks.sum(axis=1))


def log_attracted(alpha: jax.Array, beta: jax.Array, clicks: jax.Array) -> jax.Array:
    """Log-probability that so many displays (pairs,) attract: log (a)_M / (a + b)_M; (pairs,)."""
    total = clicks.astype(alpha.dtype)
    return log_rising(alpha, total) - log_rising(alpha + beta, total)


def tables(emission: Emission) -> tuple[jax.Array, jax.Array | None]:
    """u and v of each display's form u zeta + v (1 - zeta), by the codes of `Bucket.order`.

    (..., contexts) of skips, then where the emission is affine as many of clicks. Otherwise only
    skips are listed, v is 1 and not given.
    """
    if not emission.is_affine:
        return emission.attractive_rest, None
    u = jnp.concatenate([emission.attractive_rest, emission.attractive], axis=-1)
    return u, jnp.concatenate([emission.unattractive_rest, emission.unattractive], axis=-1)


def _count_displays(
    emission: Emission, attractive: jax.Array, beta: jax.Array, order: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Log-probability of the displays given what came before, and the mixture weights after.

    Returns:
        (pairs,) and (width + 1, pairs).
    """
    pairs, width = order.shape
    dtype = attractive.dtype
    hidden = jnp.arange(width + 1, dtype=dtype)[:, None]  # n, pairs last for speed
    shown = (order >= 0).T  # (width, pairs)
    u, v = tables(emission)
    overlooked = jnp.where(shown, u[order.T], 0)
    unattractive = None if v is None else jnp.where(shown, v[order.T], 0)
    before = (jnp.cumsum(shown, axis=0) - shown).astype(dtype)  # j, whatever gaps there are

    def step(weights: jax.Array, display: tuple) -> tuple[jax.Array, jax.Array]:
        counted, u, v, shown = display
        # weights beyond n = counted are 0; the maximum keeps their factors from being negative
        stay = weights * jnp.maximum(beta + (counted - hidden), 0)
        stay = stay if v is None else stay * v
        move = weights * (attractive + hidden) * u
        grown = stay + jnp.concatenate([jnp.zeros_like(move[:1]), move[:-1]])
        grown = grown / (attractive + beta + counted)
        predictive = jnp.where(shown, grown.sum(axis=0), 1)
        return jnp.where(shown, grown / predictive, weights), jnp.log(predictive)

    start = jnp.zeros((width + 1, pairs), dtype).at[0].set(1)
    if width == 0:
        return jnp.zeros(pairs, dtype), start
    displays = (before, overlooked, unattractive, shown)
    few = width <= UNROLLED
    # recomputing a step in the backward pass is cheaper than keeping its arrays
    weights, logs = jax.lax.scan(
        step if few else jax.checkpoint(step), start, displays, unroll=width if few else 1
    )
    return logs.sum(axis=0), weights

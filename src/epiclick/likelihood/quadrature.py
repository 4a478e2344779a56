r"""The likelihood of head pairs, by Gauss-Jacobi quadrature fitted to their posterior.

A pair with thousands of unclicked displays needs as many steps in closed form. Its posterior is
narrow and smooth instead: in zeta it is proportional to

.. math:: \zeta^{a + M - 1} (1 - \zeta)^{b - 1} \prod_k (1 - \theta_k \zeta)^{W_k}.

The base is a Beta with the same mode and curvature in logit(zeta). Where it reaches an end, the
posterior's own exponent there is kept, so that a pole (small a without a click, or small b) is held
exactly. What remains is smooth, and integrated by the Gauss rule of the base.
"""

import jax
import jax.numpy as jnp

from epiclick.likelihood.exact import log_clicked
from epiclick.likelihood.rising import log_rising

NODES = 32
BISECTIONS = 70
WIDEST = 60.0  # logits; no relevance in float64 lies further out
REACH = 20.0  # a Beta with a smaller parameter has mass at that end


def quadrature_log_likelihood(
    theta: jax.Array,
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
) -> jax.Array:
    """Log-probability of each pair's clicks, without binomial coefficients: (pairs,).

    Needs float64: millions of displays are the exponent of a number near 1.

    Args:
        theta: (contexts,) position bias.
        rest: (contexts,) 1 - theta.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
        nodes: points of the rule.
    """
    log_values, _ = _evaluate(rest, alpha, beta, clicks, unclicked, nodes)
    return log_clicked(theta, alpha, beta, clicks) + jax.nn.logsumexp(log_values, axis=1)


def quadrature_moments(
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of relevance given the clicks: (pairs,) each."""
    log_values, log_zeta = _evaluate(rest, alpha, beta, clicks, unclicked, nodes)
    weights = jax.nn.softmax(log_values, axis=1)
    zeta = jnp.exp(log_zeta)
    mean = (weights * zeta).sum(axis=1)
    return mean, (weights * (zeta - mean[:, None]) ** 2).sum(axis=1)


def _evaluate(
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int,
) -> tuple[jax.Array, jax.Array]:
    """Logarithms of the terms of E[prod (1 - theta zeta)^W | clicks], and of the nodes.

    Returns:
        (pairs, nodes) both.
    """
    p = alpha + clicks.sum(axis=1).astype(alpha.dtype)
    first, second = _base(rest, p, beta, unclicked)
    log_zeta, log_other, log_weight = _jacobi_rule(first, second, nodes)
    # 1 - theta zeta = (1 - zeta) + (1 - theta) zeta
    unseen = jnp.exp(log_other)[:, :, None] + rest * jnp.exp(log_zeta)[:, :, None]
    factor = (unclicked[:, None, :] * jnp.log(unseen)).sum(axis=-1)
    # from the rule's Beta to Beta(p, b)
    moved = (p - first)[:, None] * log_zeta + (beta - second)[:, None] * log_other
    scale = _log_beta_ratio(first, second, beta) + _log_beta_ratio(beta, first, p)
    return log_weight + factor + moved + scale[:, None], log_zeta


def _log_beta_ratio(common: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
    """log B(common, one) - log B(common, other), without cancellation."""
    more, less = jnp.maximum(one, other), jnp.minimum(one, other)
    ratio = log_rising(less, more - less) - log_rising(common + less, more - less)
    return jnp.where(one >= other, ratio, -ratio)


def _base(
    rest: jax.Array, p: jax.Array, beta: jax.Array, unclicked: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Parameters of the Beta whose rule is used: (pairs,) each.

    An exponent of the posterior that is kept is followed in differentiation: with a fixed rule the
    derivative would be the integral of a logarithm, which no polynomial follows near its pole. What
    is matched is held fixed, since the value does not depend on it.
    """
    theta = 1 - rest
    logit = _mode(rest, p, beta, unclicked)
    z, other = jax.nn.sigmoid(logit), jax.nn.sigmoid(-logit)
    unseen = other[:, None] + rest * z[:, None]  # 1 - theta z
    bend = theta * (other[:, None] ** 2 - rest * z[:, None] ** 2) / unseen**2
    confidence = p + beta + (unclicked * bend).sum(axis=1)
    at_zero, at_one = confidence * z < REACH, confidence * other < REACH
    odds = jnp.exp(logit)
    first = jnp.where(at_one, beta * odds, confidence * z)
    second = jnp.where(at_zero, p / odds, confidence * other)
    first = jnp.where(at_zero, p, jax.lax.stop_gradient(first))
    second = jnp.where(at_one, beta, jax.lax.stop_gradient(second))
    return first, second


def _mode(rest: jax.Array, p: jax.Array, beta: jax.Array, unclicked: jax.Array) -> jax.Array:
    """The posterior's mode in u = logit(zeta); (pairs,).

    The slope of the log posterior in u, with z = sigmoid(u),

        p (1 - z) - z (b + sum_k W_k theta_k (1 - z) / (1 - theta_k z)),

    falls throughout, so its zero is found by bisection.
    """
    theta = 1 - rest

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        z, other = jax.nn.sigmoid(middle), jax.nn.sigmoid(-middle)
        unseen = other[:, None] + rest * z[:, None]  # 1 - theta z
        pull = beta + (unclicked * theta * other[:, None] / unseen).sum(axis=1)
        rising = p * other > pull * z
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    ends = (jnp.full_like(p, -WIDEST), jnp.full_like(p, WIDEST))
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, ends)
    return (low + high) / 2


def _jacobi_rule(p: jax.Array, q: jax.Array, nodes: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Gauss rule of Beta(p, q): log zeta, log(1 - zeta) and log weights, each (pairs, nodes).

    Golub-Welsch: nodes are the eigenvalues of the Jacobi matrix of the Beta's orthogonal
    polynomials, weights the squares of the first components of its eigenvectors. The rule is made
    for the smaller of zeta and 1 - zeta, which is thus exact in relative terms.
    """
    flipped = q < p
    small, large = jnp.where(flipped, q, p), jnp.where(flipped, p, q)
    i = jnp.arange(nodes, dtype=p.dtype)
    total = (small + large)[:, None]
    s = small[:, None]
    t = total + 2 * i
    # the recurrence on [0, 1], split in its two bidiagonal factors, which are positive
    even = (s + i) * (total + i - 1) / ((t - 1) * t)
    even = even.at[:, 0].set(small / total[:, 0])
    odd = i * (large[:, None] + i - 1) / ((t - 2) * (t - 1))
    odd = odd.at[:, 0].set(0)
    diagonal = even + odd
    off = jnp.sqrt(even[:, :-1] * odd[:, 1:])
    matrix = jax.vmap(lambda d, o: jnp.diag(d) + jnp.diag(o, 1) + jnp.diag(o, -1))(diagonal, off)
    near, vectors = jnp.linalg.eigh(matrix)
    near = jnp.maximum(near, jnp.finfo(p.dtype).tiny)
    log_near, log_far = jnp.log(near), jnp.log1p(-near)
    log_weight = 2 * jnp.log(jnp.abs(vectors[:, 0, :]) + jnp.finfo(p.dtype).tiny)
    flip = flipped[:, None]
    return (
        jnp.where(flip, log_far, log_near),
        jnp.where(flip, log_near, log_far),
        log_weight,
    )

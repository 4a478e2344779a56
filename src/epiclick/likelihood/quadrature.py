r"""The likelihood of head pairs, by a trapezoidal rule in the logit of relevance.

A pair with thousands of unclicked displays needs as many steps in closed form. Here its likelihood

.. math:: E_\zeta\Big[\prod_k (\theta_k \zeta)^{M_k} (1 - \theta_k \zeta)^{W_k}\Big]
          = \frac{\prod_k \theta_k^{M_k}}{B(a, b)} \int f(u)\, du

is integrated over u = logit(zeta), where with p = a + M and r_k = 1 - theta_k

.. math:: \log f(u) = p \log\zeta + b \log(1 - \zeta)
          + \sum_k W_k \log\big((1 - \zeta) + r_k \zeta\big).

f has one peak. Its tails exp(p u) and exp(-b u) are long where p or b is small, and plain. Nodes
are u = c + s sinh(t) at equal steps of t: as dense as the peak needs, ever further apart in the
tails. There the trapezoidal rule converges exponentially, as it does for analytic functions that
fall off at both ends.

Nodes are held fixed in differentiation: the derivative of the rule is the rule of the derivative,
which converges as well. Inside, pairs come last, which is faster.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from epiclick.likelihood.rising import log_rising

NODES = 96
CENTRE_BISECTIONS = 24  # of at most 20 logits; a peak is wider than 1e-4
REACH_BISECTIONS = 7
FURTHEST = 24.0  # in t; tails of p = 1e-8 end before
NEGLIGIBLE = 32.0  # so far below its peak, in logarithms, the integrand ends


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
        theta: (contexts,) position bias, above 0; 1 is allowed.
        rest: (contexts,) 1 - theta, given apart so that it is exact near 1.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
        nodes: points of the rule.
    """
    alpha, beta = alpha.astype(rest.dtype), beta.astype(rest.dtype)
    integrand = _integrand(rest, alpha, beta, clicks, unclicked)
    examined = (clicks * jnp.log(theta)).sum(axis=1)
    return examined + _log_integral(integrand, nodes) - log_beta(alpha, beta)


def quadrature_moments(
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of relevance given the clicks: (pairs,) each."""
    alpha, beta = alpha.astype(rest.dtype), beta.astype(rest.dtype)
    at = posterior_nodes(rest, alpha, beta, clicks, unclicked, nodes)
    mean, mean_other = (at.weights * at.zeta).sum(axis=0), (at.weights * at.other).sum(axis=0)
    # deviations of the smaller one, whose digits are not spent on a leading 0.999...
    deviation = jnp.where(mean < mean_other, at.zeta - mean, at.other - mean_other)
    return mean, (at.weights * deviation**2).sum(axis=0)


class PosteriorNodes(NamedTuple):
    """Values of relevance and their probabilities given the clicks: (nodes, pairs) each.

    Attributes:
        log_likelihood: (pairs,) of the clicks, but for the factors theta_k^M_k.
        weights: probabilities.
        zeta: relevance.
        other: 1 - zeta.
        log_zeta: logarithm of zeta.
        log_other: logarithm of 1 - zeta.
    """

    log_likelihood: jax.Array
    weights: jax.Array
    zeta: jax.Array
    other: jax.Array
    log_zeta: jax.Array
    log_other: jax.Array


def posterior_nodes(
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
) -> PosteriorNodes:
    """A discrete distribution whose expectations are those of relevance given the clicks."""
    at, log_terms = _terms(_integrand(rest, alpha, beta, clicks, unclicked), nodes)
    log_integral = jax.nn.logsumexp(log_terms, axis=0)
    weights = jnp.exp(log_terms - log_integral)
    return PosteriorNodes(log_integral - log_beta(alpha, beta), weights, *at)


class _Integrand(NamedTuple):
    """What f is made of: r_k and W_k (contexts, pairs), p and b (pairs,)."""

    rest: jax.Array
    unclicked: jax.Array
    p: jax.Array
    beta: jax.Array


def _integrand(
    rest: jax.Array, alpha: jax.Array, beta: jax.Array, clicks: jax.Array, unclicked: jax.Array
) -> _Integrand:
    """The integrand of each pair; a context without a display is one nobody looks at, r = 1."""
    return _Integrand(
        rest=jnp.where(unclicked > 0, rest, 1).T,
        unclicked=unclicked.T.astype(rest.dtype),
        p=alpha + clicks.sum(axis=1).astype(rest.dtype),
        beta=beta,
    )


class _Relevance(NamedTuple):
    """zeta and 1 - zeta with their logarithms: (any, pairs) each."""

    zeta: jax.Array
    other: jax.Array
    log_zeta: jax.Array
    log_other: jax.Array


def _relevance(u: jax.Array) -> _Relevance:
    """Relevance at logit u, each part exact in relative terms."""
    odds = jnp.exp(-jnp.abs(u))  # at most 1
    log_sum = jnp.log1p(odds)
    return _Relevance(
        zeta=jnp.where(u > 0, 1, odds) / (1 + odds),
        other=jnp.where(u > 0, odds, 1) / (1 + odds),
        log_zeta=jnp.minimum(u, 0) - log_sum,
        log_other=-jnp.maximum(u, 0) - log_sum,
    )


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _log_integral(f: _Integrand, nodes: int) -> jax.Array:
    """Logarithm of the integral of f; (pairs,). Counts are data, without a derivative."""
    return jax.nn.logsumexp(_terms(f, nodes)[1], axis=0)


@_log_integral.defjvp
def _log_integral_jvp(
    nodes: int, primals: tuple[_Integrand], tangents: tuple[_Integrand]
) -> tuple[jax.Array, jax.Array]:
    r"""Derivatives are expectations given the clicks.

    .. math:: \partial_p = E[\log\zeta], \quad \partial_b = E[\log(1 - \zeta)], \quad
              \partial_{r_k} = W_k E\Big[\frac{\zeta}{1 - \theta_k \zeta}\Big]

    Written out so that contexts are gone through one after the other, which needs no
    (contexts, nodes, pairs), and because weight and quotient of the last can under- and overflow:
    both are taken relative to the smallest 1 - theta_k zeta.
    """
    (f,), (d,) = primals, tangents
    at, log_terms = _terms(f, nodes)
    log_integral = jax.nn.logsumexp(log_terms, axis=0)
    log_weights = log_terms - log_integral
    weights = jnp.exp(log_weights)

    lowest = _unseen(f.rest.min(axis=0), at)
    raised = jnp.exp(log_weights + at.log_zeta - jnp.log(lowest))

    def quotient(_: None, rest: jax.Array) -> tuple[None, jax.Array]:
        return None, (raised * (lowest / _unseen(rest, at))).sum(axis=0)

    _, quotients = jax.lax.scan(quotient, None, f.rest)  # (contexts, pairs)
    change = (f.unclicked * quotients * d.rest).sum(axis=0)
    change += (weights * at.log_zeta).sum(axis=0) * d.p
    change += (weights * at.log_other).sum(axis=0) * d.beta
    return log_integral, change


def _terms(f: _Integrand, nodes: int) -> tuple[_Relevance, jax.Array]:
    """Relevance at the nodes, and logarithms of weight times f there: (nodes, pairs)."""
    u, weight = _rule(jax.lax.stop_gradient(f), nodes)
    at = _relevance(u)
    return at, jnp.log(weight) + _log_f(f, at)


def _rule(f: _Integrand, nodes: int) -> tuple[jax.Array, jax.Array]:
    """Nodes u = c + s sinh(t) and weights s cosh(t) h, h the step in t, where f counts.

    The derivative in r_k has a factor 1 / (1 - theta_k zeta), with which it may reach much further
    up than f. So the end is looked for with the largest of these factors.
    """
    centre, width = _peak(f)
    smallest = f.rest.min(axis=0)
    floor = _log_f(f, _relevance(centre[None])) - NEGLIGIBLE  # (1, pairs)
    side = jnp.array([-1, 1], centre.dtype)[:, None]

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        at = _relevance(centre + width * jnp.sinh(side * middle))  # (2, pairs)
        within = _log_f(f, at) - jnp.log(_unseen(smallest, at)) > floor
        return jnp.where(within, middle, low), jnp.where(within, high, middle)

    start = jnp.zeros((2, *centre.shape), centre.dtype)
    _, (below, above) = jax.lax.fori_loop(0, REACH_BISECTIONS, halve, (start, start + FURTHEST))
    step = (below + above) / (nodes - 1)
    t = step * jnp.arange(nodes, dtype=centre.dtype)[:, None] - below
    return centre + width * jnp.sinh(t), width * jnp.cosh(t) * step


def _peak(f: _Integrand) -> tuple[jax.Array, jax.Array]:
    """Mode and width of f in u, with p and b raised to at least 1: (pairs,) each.

    Raised, they put the centre where a long tail bends. The mode is the zero of the slope

        p (1 - zeta) - zeta (b + sum_k W_k theta_k (1 - zeta) / (1 - theta_k zeta));

    slope / (1 - zeta) falls throughout, so it is found by bisection.
    """
    p, beta = jnp.maximum(f.p, 1), jnp.maximum(f.beta, 1)
    looked_at = f.unclicked * (1 - f.rest)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        at = _relevance(middle)
        pull = beta + (looked_at * at.other / _unseen(f.rest, at)).sum(axis=0)
        rising = p * at.other > at.zeta * pull
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    # the sum is at least 0 and at most sum_k W_k theta_k
    ends = (jnp.log(p / (beta + looked_at.sum(axis=0))), jnp.log(p / beta))
    low, high = jax.lax.fori_loop(0, CENTRE_BISECTIONS, halve, ends)
    centre = (low + high) / 2
    at = _relevance(centre)
    bend = looked_at * (at.other**2 - f.rest * at.zeta**2) / _unseen(f.rest, at) ** 2
    curvature = at.zeta * at.other * (p + beta + bend.sum(axis=0))
    return centre, 1 / jnp.sqrt(curvature)


def _log_f(f: _Integrand, at: _Relevance) -> jax.Array:
    """Logarithm of the integrand, context by context: (any, pairs)."""

    def add(total: jax.Array, context: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        rest, unclicked = context
        return total + unclicked * jnp.log(_unseen(rest, at)), None

    start = f.p * at.log_zeta + f.beta * at.log_other
    return jax.lax.scan(add, start, (f.rest, f.unclicked))[0]


def _unseen(rest: jax.Array, at: _Relevance) -> jax.Array:
    """1 - theta zeta as a sum of positive terms.

    Where it would underflow, f is 0; the smallest positive number then keeps its logarithm finite,
    and cancels in the derivative.
    """
    return jnp.maximum(at.other + rest * at.zeta, jnp.finfo(at.zeta.dtype).tiny)


def log_beta(a: jax.Array, b: jax.Array) -> jax.Array:
    """log B(a, b) = log Gamma(small) - log (large)_small, without cancellation."""
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    log_gamma = log_rising(jnp.ones_like(small), small) - jnp.log(small)
    return log_gamma - log_rising(large, small)

"""The likelihood of head pairs by quadrature, as a function that jax can trace and differentiate.

The rule is that of `epiclick.likelihood.quadrature`, whose docstring derives it; here pairs of a
batch are processed all at once, and loops are compiled.
"""

from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from epiclick.click_models.click_model import Emission
from epiclick.traced.expansion import log_rising

NODES = 96
CENTRE_BISECTIONS = 24  # of at most 20 logits; a peak is wider than 1e-4
REACH_BISECTIONS = 7
FURTHEST = 24.0  # in t; tails of p = 1e-8 end before
NEGLIGIBLE = 32.0  # the integrand is cut off this far below its peak, in logarithms


def integral_log_likelihood(
    emission: Emission,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
) -> jax.Array:
    """Log-probability of each pair's clicks, without binomial coefficients: (pairs,).

    Needs float64: millions of displays are the exponent of a number near 1.

    Args:
        emission: (contexts,) probabilities of a click, that of an attractive item above 0; or
            (pairs, slots), if counts are by slots.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
        nodes: number of nodes.
    """
    dtype = emission.attractive_rest.dtype
    alpha, beta = alpha.astype(dtype), beta.astype(dtype)
    integrand = _integrand(emission, alpha, beta, clicks, unclicked)
    examined = log_examined(emission, clicks)
    return examined + _log_integral(integrand, nodes) - log_beta(alpha, beta)


def log_examined(emission: Emission, clicks: jax.Array) -> jax.Array:
    """Logarithm of the factor of the integral, prod A_k^M_k where B is 0: (pairs,).

    If the emission is affine, clicks are part of the integrand, and it is 0.
    """
    if emission.is_affine:
        return jnp.zeros(len(clicks), emission.attractive.dtype)
    return (clicks * jnp.log(emission.attractive)).sum(axis=1)


class _Integrand(NamedTuple):
    """The parts of f: forms u zeta + v (1 - zeta), (forms, pairs), and p and b (pairs,).

    Attributes:
        u: r_k of the skips; if the emission is affine, followed by A_k of the clicks.
        v: None if all are 1.
        displays: number of displays of each form.
        p: a + M, or a if the emission is affine.
        beta: b.
    """

    u: jax.Array
    v: jax.Array | None
    displays: jax.Array
    p: jax.Array
    beta: jax.Array


def _integrand(
    emission: Emission, alpha: jax.Array, beta: jax.Array, clicks: jax.Array, unclicked: jax.Array
) -> _Integrand:
    """The integrand of each pair; a context without displays has the constant form u = v = 1."""
    dtype = emission.attractive_rest.dtype
    if not emission.is_affine:
        return _Integrand(
            u=jnp.where(unclicked > 0, emission.attractive_rest, 1).T,
            v=None,
            displays=unclicked.T.astype(dtype),
            p=alpha + clicks.sum(axis=1).astype(dtype),
            beta=beta,
        )
    u, v = (
        jnp.concatenate([jnp.where(unclicked > 0, skip, 1).T, jnp.where(clicks > 0, click, 1).T])
        for skip, click in (
            (emission.attractive_rest, emission.attractive),
            (emission.unattractive_rest, emission.unattractive),
        )
    )
    count = jnp.concatenate([unclicked.T, clicks.T]).astype(dtype)
    return _Integrand(u, v, count, alpha + jnp.zeros_like(beta), beta)


class _Relevance(NamedTuple):
    """zeta and 1 - zeta with their logarithms: (any, pairs) each."""

    zeta: jax.Array
    other: jax.Array
    log_zeta: jax.Array
    log_other: jax.Array


def _relevance(u: jax.Array) -> _Relevance:
    """Relevance at logit u, each part accurate in relative terms."""
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
              \partial_{u_i} = n_i E\Big[\frac{\zeta}{u_i \zeta + v_i (1 - \zeta)}\Big]

    Written by hand so that forms are processed one at a time, without an array
    (forms, nodes, pairs), and because weight and quotient of the last can under- and overflow:
    both are computed relative to the smallest form.
    """
    (f,), (d,) = primals, tangents
    at, log_terms = _terms(f, nodes)
    log_integral = jax.nn.logsumexp(log_terms, axis=0)
    log_weights = log_terms - log_integral
    weights = jnp.exp(log_weights)

    change = jnp.zeros_like(log_integral)
    for part in _kinds(f):
        lowest = _lowest(f, part, at)
        log_raised = log_weights - jnp.log(lowest)
        raised = jnp.exp(log_raised + at.log_zeta)
        raised_other = None if f.v is None else jnp.exp(log_raised + at.log_other)

        def quotient(
            _: None,
            form: tuple,
            lowest: jax.Array = lowest,
            raised: jax.Array = raised,
            raised_other: jax.Array | None = raised_other,
        ) -> tuple[None, tuple]:
            relative = lowest / _form(form[0], form[1], at)
            by_u = (raised * relative).sum(axis=0)
            return None, (
                by_u,
                None if raised_other is None else (raised_other * relative).sum(axis=0),
            )

        own = (f.u[part], None if f.v is None else f.v[part])
        _, (by_u, by_v) = jax.lax.scan(quotient, None, own)  # (contexts, pairs) each
        change += (f.displays[part] * by_u * d.u[part]).sum(axis=0)
        if by_v is not None:
            assert d.v is not None
            change += (f.displays[part] * by_v * d.v[part]).sum(axis=0)
    change += (weights * at.log_zeta).sum(axis=0) * d.p
    change += (weights * at.log_other).sum(axis=0) * d.beta
    return log_integral, change


def _terms(f: _Integrand, nodes: int) -> tuple[_Relevance, jax.Array]:
    """Relevance at the nodes, and logarithms of weight times f there: (nodes, pairs)."""
    u, weight = _rule(jax.lax.stop_gradient(f), nodes)
    at = _relevance(u)
    return at, jnp.log(weight) + _log_f(f, at)


def _rule(f: _Integrand, nodes: int) -> tuple[jax.Array, jax.Array]:
    """Nodes u = c + s sinh(t) and weights s cosh(t) h, h the step in t, where f matters.

    The derivative in u or v has a factor 1 / (u zeta + v (1 - zeta)), with which it may extend much
    further than f. So the cut-off is computed with the largest of these factors.
    """
    centre, width = _peak(f) if f.v is None else _affine_peak(f)
    floor = _log_f(f, _relevance(centre[None])) - NEGLIGIBLE  # (1, pairs)
    side = jnp.array([-1, 1], centre.dtype)[:, None]

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        at = _relevance(centre + width * jnp.sinh(side * middle))  # (2, pairs)
        lowest = reduce(jnp.minimum, (_lowest(f, part, at) for part in _kinds(f)))
        within = _log_f(f, at) - jnp.log(lowest) > floor
        return jnp.where(within, middle, low), jnp.where(within, high, middle)

    start = jnp.zeros((2, *centre.shape), centre.dtype)
    _, (below, above) = jax.lax.fori_loop(0, REACH_BISECTIONS, halve, (start, start + FURTHEST))
    step = (below + above) / (nodes - 1)
    t = step * jnp.arange(nodes, dtype=centre.dtype)[:, None] - below
    return centre + width * jnp.sinh(t), width * jnp.cosh(t) * step


def _peak(f: _Integrand) -> tuple[jax.Array, jax.Array]:
    """Mode and width of f in u, with p and b raised to at least 1: (pairs,) each.

    Raising them puts the centre where a long tail bends. The mode is the zero of the slope

        p (1 - zeta) - zeta (b + sum_k W_k theta_k (1 - zeta) / (1 - theta_k zeta));

    slope / (1 - zeta) decreases monotonically, so the zero is found by bisection.
    """
    p, beta = jnp.maximum(f.p, 1), jnp.maximum(f.beta, 1)
    examined = f.displays * (1 - f.u)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        at = _relevance(middle)
        pull = beta + (examined * at.other / _form(f.u, None, at)).sum(axis=0)
        rising = p * at.other > at.zeta * pull
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    # the sum is at least 0 and at most sum_k W_k theta_k
    ends = (jnp.log(p / (beta + examined.sum(axis=0))), jnp.log(p / beta))
    low, high = jax.lax.fori_loop(0, CENTRE_BISECTIONS, halve, ends)
    centre = (low + high) / 2
    at = _relevance(centre)
    bend = examined * (at.other**2 - f.u * at.zeta**2) / _form(f.u, None, at) ** 2
    curvature = at.zeta * at.other * (p + beta + bend.sum(axis=0))
    return centre, 1 / jnp.sqrt(curvature)


def _affine_peak(f: _Integrand) -> tuple[jax.Array, jax.Array]:
    """The same if unattractive items are clicked too. The slope is

        p (1 - zeta) - b zeta + zeta (1 - zeta) sum_i n_i (u_i - v_i) / (u_i zeta + v_i (1 - zeta)),

    whose last term lies between -N zeta and N (1 - zeta), N the number of displays; divided by
    zeta (1 - zeta) the slope decreases monotonically. At its zero, minus its derivative is a sum
    of squares.
    """
    assert f.v is not None
    p, beta = jnp.maximum(f.p, 1), jnp.maximum(f.beta, 1)
    difference, total = f.u - f.v, f.displays.sum(axis=0)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        at = _relevance(middle)
        # zeta and 1 - zeta each over the form: neither product can overflow
        per_form = f.displays * difference / _form(f.u, f.v, at)
        rising = p * at.other + (per_form * at.zeta * at.other).sum(axis=0) > beta * at.zeta
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    ends = (jnp.log(p / (beta + total)), jnp.log((p + total) / beta))
    low, high = jax.lax.fori_loop(0, CENTRE_BISECTIONS, halve, ends)
    centre = (low + high) / 2
    at = _relevance(centre)
    steep = f.displays * (difference * at.zeta * at.other / _form(f.u, f.v, at)) ** 2
    curvature = p * at.other**2 + beta * at.zeta**2 + steep.sum(axis=0)
    return centre, 1 / jnp.sqrt(curvature)


def _log_f(f: _Integrand, at: _Relevance) -> jax.Array:
    """Logarithm of the integrand, form by form: (any, pairs)."""

    def add(total: jax.Array, form: tuple) -> tuple[jax.Array, None]:
        u, v, count = form
        return total + count * jnp.log(_form(u, v, at)), None

    start = f.p * at.log_zeta + f.beta * at.log_other
    return jax.lax.scan(add, start, (f.u, f.v, f.displays))[0]


def _form(u: jax.Array, v: jax.Array | None, at: _Relevance) -> jax.Array:
    """u zeta + v (1 - zeta), a sum of positive terms; v of None is 1.

    Where it would underflow, f is 0; the smallest positive number then keeps its logarithm finite,
    and cancels in the derivative.
    """
    other = at.other if v is None else v * at.other
    return jnp.maximum(other + u * at.zeta, jnp.finfo(at.zeta.dtype).tiny)


def _kinds(f: _Integrand) -> list[slice]:
    """The forms of skips, and those of clicks if they are listed."""
    half = len(f.u) // 2
    return [slice(None)] if f.v is None else [slice(half), slice(half, None)]


def _lowest(f: _Integrand, kind: slice, at: _Relevance) -> jax.Array:
    """A lower bound of the forms of one kind: (any, pairs); tight, as kinds are separate."""
    return _form(f.u[kind].min(axis=0), None if f.v is None else f.v[kind].min(axis=0), at)


def log_beta(a: jax.Array, b: jax.Array) -> jax.Array:
    """log B(a, b) = log Gamma(small) - log (large)_small, without cancellation."""
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    log_gamma = log_rising(jnp.ones_like(small), small) - jnp.log(small)
    return log_gamma - log_rising(large, small)

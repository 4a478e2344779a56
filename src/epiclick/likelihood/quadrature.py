r"""The likelihood of head pairs, by a trapezoidal rule in the logit of relevance.

In closed form a pair with thousands of unclicked displays would need as many terms. Here its
likelihood

.. math:: E_\zeta\Big[\prod_k (\theta_k \zeta)^{M_k} (1 - \theta_k \zeta)^{W_k}\Big]
          = \frac{\prod_k \theta_k^{M_k}}{B(a, b)} \int f(u)\, du

is integrated over u = logit(zeta), where with p = a + M and r_k = 1 - theta_k

.. math:: \log f(u) = p \log\zeta + b \log(1 - \zeta)
          + \sum_k W_k \log\big((1 - \zeta) + r_k \zeta\big).

f has one peak. Its tails exp(p u) and exp(-b u) are smooth, and long where p or b is small. Nodes
are u = c + s sinh(t) at equal steps of t: as dense as the peak needs, further and further apart in
the tails. In t the trapezoidal rule converges exponentially, as for all analytic functions that
decay at both ends.

If unattractive items are clicked too, clicks are not part of p: clicks and skips are both forms
u zeta + v (1 - zeta), n_i of each, with (u, v) = (A, B) and (1 - A, 1 - B),

.. math:: \log f(u) = a \log\zeta + b \log(1 - \zeta)
          + \sum_i n_i \log\big(u_i \zeta + v_i (1 - \zeta)\big).

Each logarithm is concave in zeta, so that f still has one peak.

Derivatives are expectations given the clicks,

.. math:: \partial_p = E[\log\zeta], \quad \partial_b = E[\log(1 - \zeta)], \quad
          \partial_{u_i} = n_i E\Big[\frac{\zeta}{u_i \zeta + v_i (1 - \zeta)}\Big],

with nodes as constants: the derivative of the rule is the rule of the derivative, which converges
too. Pairs are the last axis of all internal arrays. `traced.integrals` has the same for jax.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.rising import log_beta

NODES = 96
CENTRE_BISECTIONS = 24  # of at most 20 logits; a peak is wider than 1e-4
CENTRED = 1e-5  # the last step to the peak, in logits; the next would be its square
REACH_BISECTIONS = 7
FURTHEST = 24.0  # in t; tails of p = 1e-8 end before
NEGLIGIBLE = 32.0  # the integrand is cut off this far below its peak, in logarithms
TINY = np.finfo(np.float64).tiny

BLOCK = 24_576
"""Nodes of all pairs that are processed at once: their arrays fit in the processor's cache."""


class Gradient(NamedTuple):
    """Log-likelihood of each pair without `log_examined`, and its derivatives.

    Attributes:
        value: (pairs,).
        by_alpha: (pairs,) derivative in the first parameter of the Beta.
        by_beta: (pairs,) in the second.
        by_u: (pairs, forms) in u of each form; forms are the skips of all contexts, then, if the
            emission is affine, the clicks.
        by_v: (pairs, forms); None where v is 1.
    """

    value: np.ndarray
    by_alpha: np.ndarray
    by_beta: np.ndarray
    by_u: np.ndarray
    by_v: np.ndarray | None


class PosteriorNodes(NamedTuple):
    """Values of relevance and their probabilities given the clicks: (nodes, pairs) each.

    Attributes:
        log_likelihood: (pairs,) of the clicks, without `log_examined`.
        weights: probabilities.
        zeta: relevance.
        other: 1 - zeta.
        log_zeta: logarithm of zeta.
        log_other: logarithm of 1 - zeta.
    """

    log_likelihood: np.ndarray
    weights: np.ndarray
    zeta: np.ndarray
    other: np.ndarray
    log_zeta: np.ndarray
    log_other: np.ndarray


def log_attractive(emission: Emission) -> np.ndarray:
    """log A, finite where A underflows: a context without clicks there has no term."""
    return np.log(np.maximum(emission.attractive, TINY))


def log_examined(emission: Emission, clicks: np.ndarray) -> np.ndarray:
    """Logarithm of the factor of the integral, prod A_k^M_k where B is 0: (pairs,).

    If the emission is affine, clicks are part of the integrand, and it is 0. The emission is
    (contexts,), or (pairs, slots) if clicks are by slots.
    """
    if emission.is_affine:
        return np.zeros(len(clicks))
    log_theta = log_attractive(emission)
    return clicks @ log_theta if log_theta.ndim == 1 else (clicks * log_theta).sum(axis=1)


def quadrature_log_likelihood(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    nodes: int = NODES,
) -> np.ndarray:
    """Log-probability of each pair's clicks, without binomial coefficients: (pairs,).

    Args:
        emission: (contexts,) probabilities of a click, that of an attractive item above 0; or
            (pairs, slots), if counts are by slots.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts) number of clicks.
        unclicked: (pairs, contexts) number of displays without a click.
        nodes: number of nodes.
    """
    found = log_examined(emission, clicks)
    for part in blocks(len(alpha), nodes):
        columns = (alpha[part], beta[part], clicks[part], unclicked[part])
        f = _integrand(_of_pairs(emission, part), *columns)
        found[part] += _log_sum(_terms(f, nodes)[1])[0] - log_beta(alpha[part], beta[part])
    return found


def quadrature_gradient(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    nodes: int = NODES,
) -> Gradient:
    """The same with derivatives, of pairs in the layout of `quadrature_log_likelihood`."""
    pairs, contexts = clicks.shape
    count = contexts * (2 if emission.is_affine else 1)
    value, by_alpha, by_beta = np.empty(pairs), np.empty(pairs), np.empty(pairs)
    by_u = np.empty((pairs, count))
    by_v = np.empty((pairs, count)) if emission.is_affine else None
    for part in blocks(pairs, nodes):
        f = _integrand(
            _of_pairs(emission, part), alpha[part], beta[part], clicks[part], unclicked[part]
        )
        at, log_terms = _terms(f, nodes)
        log_integral, weights = _log_sum(log_terms)
        value[part] = log_integral - log_beta(alpha[part], beta[part])
        both = _digamma(alpha[part] + beta[part])
        by_alpha[part] = (weights * at.log_zeta).sum(axis=0) - _digamma(alpha[part]) + both
        by_beta[part] = (weights * at.log_other).sum(axis=0) - _digamma(beta[part]) + both
        log_weights = log_terms - log_integral
        for kind in _kinds(f):
            # weight and quotient can under- and overflow: both are relative to the smallest form
            lowest = _form(*_lowest_parts(f, kind), at)
            raised = np.exp(log_weights - np.log(lowest) + at.log_zeta)
            if f.v is not None:
                raised_other = np.exp(log_weights - np.log(lowest) + at.log_other)
            for i in range(count)[kind]:
                relative = lowest / _form(f.u[i], None if f.v is None else f.v[i], at)
                by_u[part, i] = f.displays[i] * np.einsum("np,np->p", raised, relative)
                if by_v is not None:
                    by_v[part, i] = f.displays[i] * np.einsum("np,np->p", raised_other, relative)
    return Gradient(value, by_alpha, by_beta, by_u, by_v)


def quadrature_moments(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    nodes: int = NODES,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of relevance given the clicks: (pairs,) each."""
    mean, variance = np.empty(len(alpha)), np.empty(len(alpha))
    for part in blocks(len(alpha), nodes):
        columns = (alpha[part], beta[part], clicks[part], unclicked[part])
        at = posterior_nodes(_of_pairs(emission, part), *columns, nodes)
        mean[part], variance[part] = moments_of(at)
    return mean, variance


def moments_of(at: PosteriorNodes) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of relevance: (pairs,) each."""
    mean, mean_other = (at.weights * at.zeta).sum(axis=0), (at.weights * at.other).sum(axis=0)
    # deviations of the smaller one, which has more significant digits
    deviation = np.where(mean < mean_other, at.zeta - mean, at.other - mean_other)
    return mean, (at.weights * deviation**2).sum(axis=0)


def posterior_nodes(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    nodes: int,
) -> PosteriorNodes:
    """A discrete distribution whose expectations are those of relevance given the clicks."""
    at, log_terms = _terms(_integrand(emission, alpha, beta, clicks, unclicked), nodes)
    log_integral, weights = _log_sum(log_terms)
    return PosteriorNodes(log_integral - log_beta(alpha, beta), weights, *at)


def blocks(pairs: int, nodes: int) -> list[slice]:
    """Consecutive pairs that are processed at once, with this number of nodes each."""
    size = max(BLOCK // nodes, 1)
    return [slice(start, start + size) for start in range(0, pairs, size)]


def _of_pairs(emission: Emission, part: slice) -> Emission:
    """The emission of some pairs: the same for all, or their own rows."""
    if emission.attractive.ndim == 1:
        return emission
    return Emission(*(None if each is None else each[part] for each in emission))


def _digamma(x: np.ndarray) -> np.ndarray:
    from scipy.special import digamma  # loading a model must not need scipy

    return digamma(x)


class _Integrand(NamedTuple):
    """The parts of f: forms u zeta + v (1 - zeta), (forms, pairs), and p and b (pairs,).

    Attributes:
        u: r_k of the skips; if the emission is affine, followed by A_k of the clicks.
        v: None if all are 1.
        displays: number of displays of each form.
        p: a + M, or a if the emission is affine.
        beta: b.
    """

    u: np.ndarray
    v: np.ndarray | None
    displays: np.ndarray
    p: np.ndarray
    beta: np.ndarray


def _integrand(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
) -> _Integrand:
    """The integrand of each pair; a context without displays has the constant form u = v = 1."""
    if not emission.is_affine:
        return _Integrand(
            u=np.where(unclicked > 0, emission.attractive_rest, 1.0).T.copy(),
            v=None,
            displays=unclicked.T.astype(np.float64),
            p=alpha + clicks.sum(axis=1),
            beta=beta,
        )
    u, v = (
        np.concatenate([np.where(unclicked > 0, skip, 1.0).T, np.where(clicks > 0, click, 1.0).T])
        for skip, click in (
            (emission.attractive_rest, emission.attractive),
            (emission.unattractive_rest, emission.unattractive),
        )
    )
    count = np.concatenate([unclicked.T, clicks.T]).astype(np.float64)
    return _Integrand(u, v, count, alpha + np.zeros_like(beta), beta)


class _Relevance(NamedTuple):
    """zeta and 1 - zeta with their logarithms: (any, pairs) each."""

    zeta: np.ndarray
    other: np.ndarray
    log_zeta: np.ndarray
    log_other: np.ndarray


def _relevance(u: np.ndarray) -> _Relevance:
    """Relevance at logit u, each part accurate in relative terms."""
    odds = np.exp(-np.abs(u))  # at most 1
    log_sum = np.log1p(odds)
    right = u > 0
    inverse = 1 / (1 + odds)
    odds *= inverse
    return _Relevance(
        zeta=np.where(right, inverse, odds),
        other=np.where(right, odds, inverse),
        log_zeta=np.minimum(u, 0) - log_sum,
        log_other=-np.maximum(u, 0) - log_sum,
    )


def _log_sum(log_terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithm of the sum of terms, (pairs,), and their shares, (nodes, pairs)."""
    top = log_terms.max(axis=0)
    shares = np.exp(log_terms - top)
    total = shares.sum(axis=0)
    shares /= total
    return top + np.log(total), shares


def _terms(f: _Integrand, nodes: int) -> tuple[_Relevance, np.ndarray]:
    """Relevance at the nodes, and logarithms of weight times f there: (nodes, pairs)."""
    u, weight = _rule(f, nodes)
    at = _relevance(u)
    return at, np.log(weight) + _log_f(f, at)


def _rule(f: _Integrand, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u = c + s sinh(t) and weights s cosh(t) h, h the step in t, where f matters.

    The derivative in u or v has a factor 1 / (u zeta + v (1 - zeta)), with which it may extend much
    further than f. So the cut-off is computed with the largest of these factors.
    """
    centre, width = _peak(f) if f.v is None else _affine_peak(f)
    floor = _log_f(f, _relevance(centre[None])) - NEGLIGIBLE  # (1, pairs)
    side = np.array([-1.0, 1.0])[:, None]
    lowest_of = [_lowest_parts(f, part) for part in _kinds(f)]
    low = np.zeros((2, len(centre)))
    high = low + FURTHEST
    for _ in range(REACH_BISECTIONS):
        middle = (low + high) / 2
        at = _relevance(centre + width * np.sinh(side * middle))  # (2, pairs)
        lowest = reduce(np.minimum, (_form(u, v, at) for u, v in lowest_of))
        within = _log_f(f, at) - np.log(lowest) > floor
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    below, above = high
    step = (below + above) / (nodes - 1)
    t = step * np.arange(nodes, dtype=np.float64)[:, None] - below
    rise = np.exp(t)
    fall = 1 / rise
    return centre + (0.5 * width) * (rise - fall), (0.5 * width * step) * (rise + fall)


def _peak(f: _Integrand) -> tuple[np.ndarray, np.ndarray]:
    """Mode and width of f in u, with p and b raised to at least 1: (pairs,) each.

    Raising them puts the centre where a long tail bends. The mode is the zero of the slope

        p (1 - zeta) - zeta (b + sum_k W_k theta_k (1 - zeta) / (1 - theta_k zeta)),

    where the odds of zeta times the sum in brackets are p. The logarithm of this product rises with
    u, at most as fast as u, so that its value p is found by Newton's method within a bracket.
    """
    p, beta = np.maximum(f.p, 1), np.maximum(f.beta, 1)
    examined = f.displays * (1 - f.u)
    # the sum is at least 0 and at most sum_k W_k theta_k
    log_p = np.log(p)
    low, high = log_p - np.log(beta + examined.sum(axis=0)), log_p - np.log(beta)
    centre = (low + high) / 2
    for _ in range(CENTRE_BISECTIONS):
        unseen = 1 / (1 + f.u * np.exp(centre))
        parts = examined * unseen
        pull = beta + parts.sum(axis=0)
        excess = centre + np.log(pull) - log_p
        low, high = np.where(excess < 0, centre, low), np.where(excess > 0, centre, high)
        unseen -= 1
        parts *= unseen
        moved = centre - excess / (1 + parts.sum(axis=0) / pull)
        moved = np.where((moved >= low) & (moved <= high), moved, (low + high) / 2)
        change, centre = np.abs(moved - centre), moved
        if change.max(initial=0) < CENTRED:
            break
    at = _relevance(centre)
    bend = examined * (at.other**2 - f.u * at.zeta**2) / _form(f.u, None, at) ** 2
    curvature = at.zeta * at.other * (p + beta + bend.sum(axis=0))
    return centre, 1 / np.sqrt(curvature)


def _affine_peak(f: _Integrand) -> tuple[np.ndarray, np.ndarray]:
    """The same if unattractive items are clicked too. The slope is

        p (1 - zeta) - b zeta + zeta (1 - zeta) sum_i n_i (u_i - v_i) / (u_i zeta + v_i (1 - zeta)),

    whose last term lies between -N zeta and N (1 - zeta), N the number of displays; divided by
    zeta (1 - zeta) the slope decreases monotonically. At its zero, minus its derivative is a sum
    of squares.
    """
    assert f.v is not None
    p, beta = np.maximum(f.p, 1), np.maximum(f.beta, 1)
    difference, total = f.u - f.v, f.displays.sum(axis=0)
    low, high = np.log(p / (beta + total)), np.log((p + total) / beta)
    for _ in range(CENTRE_BISECTIONS):
        middle = (low + high) / 2
        at = _relevance(middle)
        per_form = f.displays * difference / _form(f.u, f.v, at)
        rising = p * at.other + (per_form * at.zeta * at.other).sum(axis=0) > beta * at.zeta
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    centre = (low + high) / 2
    at = _relevance(centre)
    steep = f.displays * (difference * at.zeta * at.other / _form(f.u, f.v, at)) ** 2
    curvature = p * at.other**2 + beta * at.zeta**2 + steep.sum(axis=0)
    return centre, 1 / np.sqrt(curvature)


def _log_f(f: _Integrand, at: _Relevance) -> np.ndarray:
    """Logarithm of the integrand: (any, pairs). Form by form, or all at once where they are few."""
    total = f.p * at.log_zeta
    total += f.beta * at.log_other
    if len(at.zeta) * f.u.size <= BLOCK:
        every = _form(f.u[:, None], None if f.v is None else f.v[:, None], at)
        np.log(every, out=every)
        total += np.einsum("fp,fnp->np", f.displays, every)
        return total
    for i, count in enumerate(f.displays):
        if count.any():
            form = _form(f.u[i], None if f.v is None else f.v[i], at)
            np.log(form, out=form)
            form *= count
            total += form
    return total


def _form(u: np.ndarray, v: np.ndarray | None, at: _Relevance) -> np.ndarray:
    """u zeta + v (1 - zeta), a sum of positive terms; v of None is 1.

    Where it would underflow, f is 0; the smallest positive number then keeps its logarithm finite,
    and cancels in the derivative.
    """
    form = u * at.zeta
    form += at.other if v is None else v * at.other
    return np.maximum(form, TINY, out=form)


def _kinds(f: _Integrand) -> list[slice]:
    """The forms of skips, and those of clicks if they are listed."""
    half = len(f.u) // 2
    return [slice(None)] if f.v is None else [slice(half), slice(half, None)]


def _lowest_parts(f: _Integrand, kind: slice) -> tuple[np.ndarray, np.ndarray | None]:
    """u and v of a lower bound of the forms of one kind; tight, as kinds are separate."""
    return f.u[kind].min(axis=0), None if f.v is None else f.v[kind].min(axis=0)

r"""Second derivatives of the log-likelihood of each pair, relevance integrated out.

The likelihood of a pair is an integral over its relevance zeta. Were zeta known, its logarithm
would be g(x, zeta), of plain derivatives in the logits of position bias and in the raw outputs of
the network. The derivatives of the integral are moments of these given the clicks (Louis' identity)

.. math:: \nabla \log \int e^g = E[\nabla g], \qquad
          \nabla^2 \log \int e^g = E[\nabla^2 g] + \operatorname{Cov}[\nabla g],

taken over the nodes of the quadrature. With x = logit(theta_k), r = 1 - theta,

.. math:: g = M_k \log\theta_k + W_k \log(1 - \theta_k \zeta) + a \log\zeta + b \log(1 - \zeta)
          - \log B(a, b).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, polygamma

from epiclick.likelihood.quadrature import posterior_nodes
from epiclick.relevance.links import betas_of, probability

NODES = 48
"""Of the quadrature, right to 1e-9 a pair."""


class PairCurvature(NamedTuple):
    """Derivatives for each pair in the free logits f and in the raw outputs (mean, confidence).

    Attributes:
        value: (pairs,) log-likelihood.
        by_logit: (pairs, f).
        by_raw: (pairs, 2).
        logit_logit: (pairs, f, f).
        logit_raw: (pairs, f, 2).
        raw_raw: (pairs, 2, 2).
    """

    value: jax.Array
    by_logit: jax.Array
    by_raw: jax.Array
    logit_logit: jax.Array
    logit_raw: jax.Array
    raw_raw: jax.Array


def pair_curvature(
    theta: jax.Array,
    rest: jax.Array,
    free: np.ndarray,
    raw: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
) -> PairCurvature:
    """Log-likelihood of pairs with its first and second derivatives.

    Args:
        theta: (contexts,) position bias.
        rest: (contexts,) 1 - theta.
        free: contexts whose logits are free.
        raw: (pairs, 2) raw outputs of the network.
        clicks: (pairs, contexts).
        unclicked: (pairs, contexts).
        nodes: of the quadrature.
    """
    alpha, beta = betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)
    at = posterior_nodes(rest, alpha, beta, clicks, unclicked, nodes)
    t, r = theta[free], rest[free]
    seen = at.zeta / (at.other + r[:, None, None] * at.zeta)  # zeta / (1 - theta zeta)
    missed = unclicked[:, free].T[:, None]  # (f, 1, pairs)
    scale = (t * r)[:, None, None]
    slope = -missed * scale * seen  # (f, nodes, pairs)
    bend = slope * ((1 - 2 * t)[:, None, None] + scale * seen)
    known = jnp.concatenate([slope, at.log_zeta[None], at.log_other[None]])  # (f + 2, nodes, pairs)
    mean = (at.weights * known).sum(axis=1)  # (f + 2, pairs)
    away = known - mean[:, None]
    covariance = jnp.einsum("np,inp,jnp->pij", at.weights, away, away)

    count = len(free)
    clicked = clicks[:, free]
    diagonal = (at.weights * bend).sum(axis=1).T - clicked * t * r  # (pairs, f)
    first, second = _shape_derivatives(alpha, beta)
    by_shape = mean[count:].T - first  # in alpha and beta
    shape_shape = covariance[:, count:, count:] - second
    turn, turned = _raw_to_shape(raw)  # (pairs, 2 shapes, 2 raws), (pairs, 2, 2, 2)
    return PairCurvature(
        value=at.log_likelihood + (clicks * jnp.log(theta)).sum(axis=1),
        by_logit=clicked * r + mean[:count].T,
        by_raw=jnp.einsum("ps,pso->po", by_shape, turn),
        logit_logit=covariance[:, :count, :count] + diagonal[:, :, None] * jnp.eye(count),
        logit_raw=jnp.einsum("pfs,pso->pfo", covariance[:, :count, count:], turn),
        raw_raw=jnp.einsum("pso,pst,ptq->poq", turn, shape_shape, turn)
        + jnp.einsum("ps,psoq->poq", by_shape, turned),
    )


def _shape_derivatives(alpha: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Gradient (pairs, 2) and Hessian (pairs, 2, 2) of log B(alpha, beta)."""
    total = digamma(alpha + beta)
    first = jnp.stack([digamma(alpha) - total, digamma(beta) - total], axis=1)
    joint = polygamma(1, alpha + beta)[:, None, None]
    own = jnp.stack([polygamma(1, alpha), polygamma(1, beta)], axis=1)
    return first, own[:, :, None] * jnp.eye(2) - joint


def _raw_to_shape(raw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Derivatives of (alpha, beta) in the raw outputs: (pairs, 2, 2) and (pairs, 2, 2, 2)."""
    mean, other = probability(raw[:, 0], jnp), probability(-raw[:, 0], jnp)
    nu = jnp.logaddexp(0.0, raw[:, 1]) + 1
    rise, fall = probability(raw[:, 1], jnp), probability(-raw[:, 1], jnp)  # of nu, and of that
    slope = mean * other
    bend = slope * (other - mean)
    turn = jnp.stack([slope * nu, mean * rise, -slope * nu, other * rise], axis=1)
    both, curve = slope * rise, rise * fall
    turned = jnp.stack(
        [bend * nu, both, both, mean * curve, -bend * nu, -both, -both, other * curve], axis=1
    )
    return turn.reshape(-1, 2, 2), turned.reshape(-1, 2, 2, 2)

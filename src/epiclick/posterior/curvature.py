r"""Second derivatives of the log-likelihood of pairs, relevance integrated out.

The likelihood of a pair is an integral over its relevance zeta. If zeta were known, its logarithm
would be g(x, zeta), with simple derivatives in the logits of the emission and in the raw outputs of
the network. The derivatives of the integral are moments of these given the clicks (Louis' identity)

.. math:: \nabla \log \int e^g = E[\nabla g], \qquad
          \nabla^2 \log \int e^g = E[\nabla^2 g] + \operatorname{Cov}[\nabla g],

computed over the nodes of the quadrature. With x_k = logit(A_k), y_k = logit(B_k) if unattractive
items are clicked too, and P_k = A_k zeta + B_k (1 - zeta),

.. math:: g = M_k \log P_k + W_k \log(1 - P_k) + a \log\zeta + b \log(1 - \zeta) - \log B(a, b).

Hessians over contexts are summed over pairs directly, to save the memory of one per pair.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, polygamma

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.quadrature import PosteriorNodes, log_examined, posterior_nodes
from epiclick.relevance.heads import betas_of, probability

NODES = 48
"""Of the quadrature, accurate to 1e-9 per pair."""

BLOCK = 64
"""Pairs by slots that are processed at once: their arrays fit in the processor's cache."""


class PairCurvature(NamedTuple):
    """Derivatives in logits of the emission and in the raw outputs (mean, confidence).

    Logits are x of all contexts, then, if the emission is affine, y of all contexts. Those of an A
    of 1 or a B of 0 have derivative 0.

    Attributes:
        value: (pairs,) log-likelihood.
        by_logit: (pairs, logits).
        by_raw: (pairs, 2).
        logit_logit: (logits, logits), summed over pairs.
        logit_raw: (pairs, logits, 2).
        raw_raw: (pairs, 2, 2).
    """

    value: jax.Array
    by_logit: jax.Array
    by_raw: jax.Array
    logit_logit: jax.Array
    logit_raw: jax.Array
    raw_raw: jax.Array


def pair_curvature(
    emission: Emission,
    raw: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int = NODES,
    slots: jax.Array | None = None,
) -> PairCurvature:
    """Log-likelihood of pairs with its first and second derivatives.

    Args:
        emission: (contexts,) probabilities of a click.
        raw: (pairs, 2) raw outputs of the network.
        clicks: (pairs, contexts), or (pairs, slots).
        unclicked: as clicks.
        nodes: of the quadrature.
        slots: (pairs, slots) contexts of the counts; None where counts cover all contexts. With
            slots, pairs are processed in blocks; best a multiple of BLOCK.
    """
    if slots is None:
        return _of_block(emission, raw, clicks, unclicked, nodes, None)
    counts = (raw, clicks, unclicked)
    size = math.gcd(len(raw), BLOCK)
    blocks = jax.tree.map(lambda part: part.reshape(-1, size, *part.shape[1:]), (*counts, slots))

    def add(total: jax.Array, block: tuple) -> tuple[jax.Array, PairCurvature]:
        raw, clicks, unclicked, own_slots = block
        own = _of_block(emission, raw, clicks, unclicked, nodes, own_slots)
        return total + own.logit_logit, own._replace(logit_logit=jnp.zeros(len(raw)))

    logits = len(emission.attractive) * (2 if emission.is_affine else 1)
    start = jnp.zeros((logits, logits), emission.attractive.dtype)
    total, each = jax.lax.scan(add, start, blocks)
    joined = jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), each)
    return joined._replace(logit_logit=total)


def _of_block(
    emission: Emission,
    raw: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    nodes: int,
    slots: jax.Array | None,
) -> PairCurvature:
    """The same for one block of pairs."""
    alpha, beta = betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)
    local = emission if slots is None else emission.at(slots)
    at = posterior_nodes(local, alpha, beta, clicks, unclicked, nodes)
    known = _known(local, at, clicks.T, unclicked.T)
    logits = len(known.constant)
    shapes = jnp.stack([at.log_zeta, at.log_other])
    varying = jnp.concatenate([known.slope, shapes])  # (logits + 2, nodes, pairs)
    mean = (at.weights * varying).sum(axis=1)  # (logits + 2, pairs)
    away = jnp.sqrt(at.weights) * (varying - mean[:, None])
    of_logits, of_shapes = away[:logits], away[logits:]
    by_logit = known.constant + mean[:logits]
    cross = jnp.einsum("lnp,snp->pls", of_logits, of_shapes)

    first, second = _shape_derivatives(alpha, beta)
    by_shape = mean[logits:].T - first  # in alpha and beta
    shape_shape = jnp.einsum("snp,tnp->pst", of_shapes, of_shapes) - second
    turn, turned = _raw_to_shape(raw)  # (pairs, 2 shapes, 2 raws), (pairs, 2, 2, 2)
    logit_raw = jnp.einsum("pfs,pso->pfo", cross, turn)
    contexts = emission.attractive.shape[0]
    return PairCurvature(
        value=at.log_likelihood + log_examined(local, clicks),
        by_logit=_by_context(by_logit.T, slots, contexts),
        by_raw=jnp.einsum("ps,pso->po", by_shape, turn),
        logit_logit=_outer_sum(of_logits, slots, contexts)
        + _expected_bend(known, at.weights, slots, contexts),
        logit_raw=_by_context(logit_raw, slots, contexts),
        raw_raw=jnp.einsum("pso,pst,ptq->poq", turn, shape_shape, turn)
        + jnp.einsum("ps,psoq->poq", by_shape, turned),
    )


class ParameterCurvature(NamedTuple):
    """Derivatives of the same log-likelihoods in the parameters of the emission.

    Attributes:
        by_parameter: (pairs, parameters).
        parameter_parameter: (parameters, parameters), summed over pairs.
        parameter_raw: (pairs, parameters, 2).
    """

    by_parameter: jax.Array
    parameter_parameter: jax.Array
    parameter_raw: jax.Array


def chained(
    logits: Callable[[jax.Array], jax.Array], parameters: jax.Array, own: PairCurvature
) -> ParameterCurvature:
    r"""The chain rule from logits of the emission to the parameters that they depend on.

    .. math:: \nabla_p = J^\top \nabla_x, \qquad
              \nabla_p^2 = J^\top \nabla_x^2 J
              + \sum_i \frac{\partial g}{\partial x_i} \nabla_p^2 x_i

    Args:
        logits: from parameters (parameters,) to logits (logits,), in the order of `PairCurvature`;
            see `emission_logits`.
        parameters: (parameters,) where the derivatives were taken.
        own: derivatives in logits.
    """
    jacobian = jax.jacfwd(logits)(parameters)  # (logits, parameters)
    slope = own.by_logit.sum(axis=0)
    bend = jax.hessian(lambda values: slope @ logits(values))(parameters)
    return ParameterCurvature(
        by_parameter=own.by_logit @ jacobian,
        parameter_parameter=jacobian.T @ own.logit_logit @ jacobian + bend,
        parameter_raw=jnp.einsum("plo,lf->pfo", own.logit_raw, jacobian),
    )


def emission_logits(emission: Emission) -> jax.Array:
    """x of all contexts, then y if the emission is affine: (logits,).

    Where a probability is 0 or 1 it is fixed: its logit is set to 0, with derivative 0.
    """
    parts = [(emission.attractive, emission.attractive_rest)]
    if emission.is_affine:
        parts.append((emission.unattractive, emission.unattractive_rest))

    def logit(value: jax.Array, rest: jax.Array) -> jax.Array:
        inside = (value > 0) & (rest > 0)
        value, rest = (jnp.where(inside, part, 1.0) for part in (value, rest))
        return jnp.log(value) - jnp.log(rest)

    return jnp.concatenate([logit(*part) for part in parts])


class _Known(NamedTuple):
    """Derivatives in logits at known relevance; (logits, nodes, pairs), constants (logits, pairs).

    Attributes:
        slope: first derivatives, without `constant`.
        bend: second derivatives in the same logit, without `constant_bend`.
        mixed: (contexts, nodes, pairs) those in x and y of one context; None without y.
        constant: terms of the slope that do not depend on relevance.
        constant_bend: such terms of the second derivatives.
    """

    slope: jax.Array
    bend: jax.Array
    mixed: jax.Array | None
    constant: jax.Array
    constant_bend: jax.Array


def _known(
    emission: Emission, at: PosteriorNodes, clicks: jax.Array, unclicked: jax.Array
) -> _Known:
    """The derivatives for counts (contexts or slots, pairs)."""
    # (contexts, 1) or (slots, pairs)
    t, r, *trust = (
        part[:, None] if part.ndim == 1 else part.T for part in emission if part is not None
    )
    scale, smallest = t * r, jnp.finfo(at.zeta.dtype).tiny
    if not trust:
        # zeta / (1 - theta zeta), finite where theta is 1 and relevance rounds to 1
        seen = at.zeta / jnp.maximum(at.other + r[:, None] * at.zeta, smallest)
        slope = -(unclicked * scale)[:, None] * seen
        bend = slope * ((1 - 2 * t)[:, None] + scale[:, None] * seen)
        return _Known(slope, bend, None, clicks * r, -clicks * scale)
    b, b_rest = trust
    click = jnp.maximum(t[:, None] * at.zeta + b[:, None] * at.other, smallest)
    skip = jnp.maximum(r[:, None] * at.zeta + b_rest[:, None] * at.other, smallest)
    count, missed = clicks[:, None], unclicked[:, None]
    # P changes with x by A (1 - A) zeta, with y by B (1 - B) (1 - zeta); both over P and 1 - P
    turn, turn_b = (scale[:, None] * at.zeta, (b * b_rest)[:, None] * at.other)
    slopes, bends = [], []
    for change, own, own_rest in ((turn, t, r), (turn_b, b, b_rest)):
        up, down = change / click, change / skip
        slope = count * up - missed * down
        slopes.append(slope)
        bends.append(slope * (own_rest - own)[:, None] - count * up**2 - missed * down**2)
    mixed = -count * (turn / click) * (turn_b / click) - missed * (turn / skip) * (turn_b / skip)
    slope = jnp.concatenate(slopes)
    nothing = jnp.zeros_like(slope[:, 0])
    return _Known(slope, jnp.concatenate(bends), mixed, nothing, nothing)


def _columns(slots: jax.Array, kinds: int, contexts: int) -> jax.Array:
    """(pairs, kinds * slots) index of each slot's logit, for each kind of logits."""
    return jnp.concatenate([slots + kind * contexts for kind in range(kinds)], axis=1)


def _by_context(values: jax.Array, slots: jax.Array | None, contexts: int) -> jax.Array:
    """(pairs, logits, ...) from values by logit, or by the logits of slots."""
    if slots is None:
        return values
    pairs, size = slots.shape
    kinds = values.shape[1] // size
    row, column = jnp.arange(pairs)[:, None], _columns(slots, kinds, contexts)
    start = jnp.zeros((pairs, kinds * contexts, *values.shape[2:]), values.dtype)
    return start.at[row, column].add(values)


def _outer_sum(away: jax.Array, slots: jax.Array | None, contexts: int) -> jax.Array:
    """Sum over nodes and pairs of outer products of (logits, nodes, pairs): (logits, logits)."""
    if slots is None:
        flat = away.reshape(len(away), -1)
        return flat @ flat.T
    kinds = len(away) // slots.shape[1]

    # pair by pair: several times as fast as scattering all products at once
    def add(total: jax.Array, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        own, column = pair
        return total.at[column[:, None], column].add(own @ own.T), None

    start = jnp.zeros((kinds * contexts,) * 2, away.dtype)
    of_pairs = (away.transpose(2, 0, 1), _columns(slots, kinds, contexts))
    return jax.lax.scan(add, start, of_pairs)[0]


def _expected_bend(
    known: _Known, weights: jax.Array, slots: jax.Array | None, contexts: int
) -> jax.Array:
    """Sum over pairs of E[second derivatives at known relevance]: (logits, logits)."""

    def total(values: jax.Array) -> jax.Array:
        """Sum over pairs of (logits or slots, pairs): (logits,)."""
        if slots is None:
            return values.sum(axis=1)
        kinds = len(values) // slots.shape[1]
        start = jnp.zeros(kinds * contexts, values.dtype)
        return start.at[_columns(slots, kinds, contexts)].add(values.T)

    own = jnp.diag(total((weights * known.bend).sum(axis=1) + known.constant_bend))
    if known.mixed is None:
        return own
    mixed = jnp.diag(total((weights * known.mixed).sum(axis=1)))
    nothing = jnp.zeros_like(mixed)
    return own + jnp.block([[nothing, mixed], [mixed, nothing]])


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
    rise, fall = (
        probability(raw[:, 1], jnp),
        probability(-raw[:, 1], jnp),
    )  # first derivative of nu, and its complement
    slope = mean * other
    bend = slope * (other - mean)
    turn = jnp.stack([slope * nu, mean * rise, -slope * nu, other * rise], axis=1)
    both, curve = slope * rise, rise * fall
    turned = jnp.stack(
        [bend * nu, both, both, mean * curve, -bend * nu, -both, -both, other * curve], axis=1
    )
    return turn.reshape(-1, 2, 2), turned.reshape(-1, 2, 2, 2)

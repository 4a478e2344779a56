r"""Second derivatives of the log-likelihood of pairs, relevance integrated out.

The likelihood of a pair is an integral over its relevance zeta. If zeta were known, its logarithm
would be g(x, zeta), with simple derivatives in the logits of the emission and in the raw outputs of
the network. The derivatives of the integral are moments of these given the clicks (Louis' identity)

.. math:: \nabla \log \int e^g = E[\nabla g], \qquad
          \nabla^2 \log \int e^g = E[\nabla^2 g] + \operatorname{Cov}[\nabla g],

computed over the nodes of the quadrature. With x_k = logit(A_k), y_k = logit(B_k) if unattractive
items are clicked too, and P_k = A_k zeta + B_k (1 - zeta),

.. math:: g = M_k \log P_k + W_k \log(1 - P_k) + a \log\zeta + b \log(1 - \zeta) - \log B(a, b).

Hessians over contexts are summed over pairs directly, to save the memory of one per pair. Pairs are
the last axis of internal arrays, and are processed in blocks that fit in the processor's cache.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, polygamma

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.quadrature import (
    TINY,
    PosteriorNodes,
    blocks,
    log_examined,
    posterior_nodes,
)
from epiclick.relevance.heads import betas_of, probability, softplus

NODES = 48
"""Of the quadrature, accurate to 1e-9 per pair."""


class PairCurvature(NamedTuple):
    """Derivatives in logits of the emission and in the raw outputs (mean, confidence).

    Logits are x of all contexts, then, if the emission is affine, y of all contexts. Those of an A
    of 1 or a B of 0 have derivative 0.

    Attributes:
        value: (pairs,) log-likelihood.
        by_logit: (pairs, logits).
        by_raw: (pairs, 2).
        logit_logit: (logits, logits), weighted sum over pairs.
        logit_raw: (pairs, logits, 2).
        raw_raw: (pairs, 2, 2).
    """

    value: np.ndarray
    by_logit: np.ndarray
    by_raw: np.ndarray
    logit_logit: np.ndarray
    logit_raw: np.ndarray
    raw_raw: np.ndarray


def pair_curvature(
    emission: Emission,
    raw: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    nodes: int = NODES,
    slots: np.ndarray | None = None,
    weight: np.ndarray | None = None,
) -> PairCurvature:
    """Log-likelihood of pairs with its first and second derivatives.

    Args:
        emission: (contexts,) probabilities of a click.
        raw: (pairs, 2) raw outputs of the network.
        clicks: (pairs, contexts), or (pairs, slots).
        unclicked: as clicks.
        nodes: of the quadrature.
        slots: (pairs, slots) contexts of the counts; None where counts cover all contexts.
        weight: (pairs,) in `logit_logit`; default 1.
    """
    pairs, contexts = len(raw), len(emission.attractive)
    logits = contexts * (2 if emission.is_affine else 1)
    weight = np.ones(pairs) if weight is None else weight
    value, by_logit, by_raw = np.empty(pairs), np.zeros((pairs, logits)), np.empty((pairs, 2))
    logit_logit, logit_raw = np.zeros((logits, logits)), np.zeros((pairs, logits, 2))
    raw_raw = np.empty((pairs, 2, 2))
    alpha, beta = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
    first, second = _shape_derivatives(alpha, beta)
    turn, turned = _raw_to_shape(raw)  # (pairs, 2 shapes, 2 raws), (pairs, 2, 2, 2)
    for part in blocks(pairs, nodes):
        own_slots = None if slots is None else slots[part]
        local = emission if own_slots is None else emission.at(own_slots)
        counts = (clicks[part], unclicked[part])
        at = posterior_nodes(local, alpha[part], beta[part], *counts, nodes)
        known = _known(local, at, *(each.T.astype(np.float64) for each in counts))
        count = len(known.constant)
        shapes = np.stack([at.log_zeta, at.log_other])
        varying = np.concatenate([known.slope, shapes])  # (logits + 2, nodes, pairs)
        mean = np.einsum("np,lnp->lp", at.weights, varying)
        varying -= mean[:, None]
        varying *= np.sqrt(at.weights)
        of_logits, of_shapes = varying[:count], varying[count:]
        cross = np.einsum("lnp,snp->pls", of_logits, of_shapes)
        shape_shape = np.einsum("snp,tnp->pst", of_shapes, of_shapes) - second[part]
        by_shape = mean[count:].T - first[part]  # in alpha and beta

        value[part] = at.log_likelihood + log_examined(local, clicks[part])
        _add_by_context(by_logit[part], (known.constant + mean[:count]).T, own_slots)
        by_raw[part] = np.einsum("ps,pso->po", by_shape, turn[part])
        _add_by_context(logit_raw[part], np.matmul(cross, turn[part]), own_slots)
        raw_raw[part] = np.matmul(turn[part].transpose(0, 2, 1), np.matmul(shape_shape, turn[part]))
        raw_raw[part] += np.einsum("ps,psoq->poq", by_shape, turned[part])
        _add_outer(logit_logit, of_logits, weight[part], own_slots, contexts)
        _add_expected_bend(logit_logit, known, at.weights, weight[part], own_slots, contexts)
    return PairCurvature(value, by_logit, by_raw, logit_logit, logit_raw, raw_raw)


class _Known(NamedTuple):
    """Derivatives in logits at known relevance; (logits, nodes, pairs), constants (logits, pairs).

    Attributes:
        slope: first derivatives, without `constant`.
        bend: second derivatives in the same logit, without `constant_bend`.
        mixed: (contexts, nodes, pairs) those in x and y of one context; None without y.
        constant: terms of the slope that do not depend on relevance.
        constant_bend: such terms of the second derivatives.
    """

    slope: np.ndarray
    bend: np.ndarray
    mixed: np.ndarray | None
    constant: np.ndarray
    constant_bend: np.ndarray


def _known(
    emission: Emission, at: PosteriorNodes, clicks: np.ndarray, unclicked: np.ndarray
) -> _Known:
    """The derivatives for counts (contexts or slots, pairs)."""
    # (contexts, 1) or (slots, pairs)
    t, r, *trust = (
        part[:, None] if part.ndim == 1 else part.T for part in emission if part is not None
    )
    scale = t * r
    if not trust:
        # zeta / (1 - theta zeta), finite where theta is 1 and relevance rounds to 1
        form = r[:, None] * at.zeta
        form += at.other
        seen = at.zeta / np.maximum(form, TINY, out=form)
        slope = -(unclicked * scale)[:, None] * seen
        seen *= scale[:, None]
        seen += (1 - 2 * t)[:, None]
        seen *= slope
        return _Known(slope, seen, None, clicks * r, -clicks * scale)
    b, b_rest = trust
    click = np.maximum(t[:, None] * at.zeta + b[:, None] * at.other, TINY)
    skip = np.maximum(r[:, None] * at.zeta + b_rest[:, None] * at.other, TINY)
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
    slope = np.concatenate(slopes)
    nothing = np.zeros_like(slope[:, 0])
    return _Known(slope, np.concatenate(bends), mixed, nothing, nothing)


def _columns(slots: np.ndarray, kinds: int, contexts: int) -> np.ndarray:
    """(pairs, kinds * slots) index of each slot's logit, for each kind of logits."""
    return np.concatenate([slots + kind * contexts for kind in range(kinds)], axis=1)


def _add_by_context(total: np.ndarray, values: np.ndarray, slots: np.ndarray | None) -> None:
    """Add values by logit, or by the logits of slots, to (pairs, logits, ...)."""
    if slots is None:
        total += values
        return
    kinds = values.shape[1] // slots.shape[1]
    column = _columns(slots, kinds, total.shape[1] // kinds)
    # slots that are not used all name the first context, with values of 0
    np.add.at(total, (np.arange(len(slots))[:, None], column), values)


def _add_outer(
    total: np.ndarray,
    away: np.ndarray,
    weight: np.ndarray,
    slots: np.ndarray | None,
    contexts: int,
) -> None:
    """Add the sum over nodes and pairs of outer products of (logits, nodes, pairs)."""
    if slots is None:
        flat = away.reshape(len(away), -1)
        total += (away * weight).reshape(len(away), -1) @ flat.T
        return
    column = _columns(slots, len(away) // slots.shape[1], contexts)
    by_pair = away.transpose(2, 0, 1)
    products = np.matmul(by_pair, by_pair.transpose(0, 2, 1)) * weight[:, None, None]
    size = len(total)
    place = column[:, :, None] * size + column[:, None, :]
    total += np.bincount(place.ravel(), products.ravel(), size * size).reshape(size, size)


def _add_expected_bend(
    total: np.ndarray,
    known: _Known,
    shares: np.ndarray,
    weight: np.ndarray,
    slots: np.ndarray | None,
    contexts: int,
) -> None:
    """Add the sum over pairs of E[second derivatives at known relevance]."""

    def by_logit(values: np.ndarray) -> np.ndarray:
        """Weighted sum over pairs of (logits or slots, pairs): (logits,)."""
        if slots is None:
            return values @ weight
        kinds = len(values) // slots.shape[1]
        column = _columns(slots, kinds, contexts)
        return np.bincount(column.ravel(), (values * weight).T.ravel(), kinds * contexts)

    own = by_logit(np.einsum("np,lnp->lp", shares, known.bend) + known.constant_bend)
    place = np.arange(len(own))
    total[place, place] += own
    if known.mixed is not None:
        mixed = by_logit(np.einsum("np,lnp->lp", shares, known.mixed))
        first = np.arange(contexts)
        total[first, first + contexts] += mixed
        total[first + contexts, first] += mixed


def _shape_derivatives(alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (pairs, 2) and Hessian (pairs, 2, 2) of log B(alpha, beta)."""
    total = digamma(alpha + beta)
    first = np.stack([digamma(alpha) - total, digamma(beta) - total], axis=1)
    joint = polygamma(1, alpha + beta)[:, None, None]
    own = np.stack([polygamma(1, alpha), polygamma(1, beta)], axis=1)
    return first, own[:, :, None] * np.eye(2) - joint


def _raw_to_shape(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of (alpha, beta) in the raw outputs: (pairs, 2, 2) and (pairs, 2, 2, 2)."""
    mean, other = probability(raw[:, 0], np), probability(-raw[:, 0], np)
    nu = softplus(raw[:, 1], np) + 1
    rise, fall = (
        probability(raw[:, 1], np),
        probability(-raw[:, 1], np),
    )  # first derivative of nu, and its complement
    slope = mean * other
    bend = slope * (other - mean)
    turn = np.stack([slope * nu, mean * rise, -slope * nu, other * rise], axis=1)
    both, curve = slope * rise, rise * fall
    turned = np.stack(
        [bend * nu, both, both, mean * curve, -bend * nu, -both, -both, other * curve], axis=1
    )
    return turn.reshape(-1, 2, 2), turned.reshape(-1, 2, 2, 2)

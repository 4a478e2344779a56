r"""The log-likelihood of a batch of pairs, with its derivatives, written out for numpy.

Each bucket is computed by the method that suits its number of displays: in closed form, or by
quadrature. Derivatives in the emission are in its logits, x = logit(A) of all contexts and then, if
the emission is affine, y = logit(B): with A' = A (1 - A) those of a skip and of a click are

.. math:: \frac{\partial}{\partial x} = -A' \frac{\partial}{\partial u}, \qquad
          \frac{\partial}{\partial x} = A' \frac{\partial}{\partial u},

and 0 where A is 1.
"""

from typing import NamedTuple

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import (
    Expansion,
    attracted,
    expand,
    forms,
    log_expanded,
)
from epiclick.likelihood.pairs import Bucket, PairBatch
from epiclick.likelihood.quadrature import (
    NODES,
    Gradient,
    log_attractive,
    quadrature_gradient,
    quadrature_log_likelihood,
)


class BatchGradient(NamedTuple):
    """Log-likelihoods of pairs, relevance integrated out, and their derivatives.

    Attributes:
        value: (pairs,) without binomial coefficients and weights.
        by_alpha: (pairs,) derivative in the first parameter of the Beta of relevance.
        by_beta: (pairs,) in the second.
        by_logit: (logits,) weighted sum over pairs of the derivatives in the emission's logits.
    """

    value: np.ndarray
    by_alpha: np.ndarray
    by_beta: np.ndarray
    by_logit: np.ndarray


def batch_gradient(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    batch: PairBatch,
    nodes: int = NODES,
) -> BatchGradient:
    r"""Log-likelihood of each pair and its derivatives, the paper's log JJ (its section 5.2).

    Args:
        emission: (contexts,) probabilities of a click, float64.
        alpha: (pairs,) first parameter of the Beta of relevance, float64.
        beta: (pairs,) second parameter.
        batch: counts of the pairs, laid out for an affine emission if this one is.
        nodes: of the quadrature.
    """
    contexts, affine = len(emission.attractive), emission.is_affine
    value, by_alpha, by_beta = np.empty(len(alpha)), np.empty(len(alpha)), np.empty(len(alpha))
    by_u = np.zeros(2 * contexts if affine else contexts)
    by_v = np.zeros(2 * contexts)
    u, v = forms(emission)
    log_theta = log_attractive(emission)
    clicked, total = np.zeros(contexts), _total_clicks(batch, affine)
    first = np.zeros((3, len(alpha))) if affine else attracted(alpha, beta, total)
    after = alpha + total
    for part, bucket in batch.parts():
        a, b, weight = after[part], beta[part], batch.weight[part]
        if not affine:
            first[0, part] += bucket.over_contexts(log_theta[None])[0]
            clicked += _weighted_sum(bucket, weight, bucket.clicks, contexts)
        found: Expansion | Gradient
        if bucket.order is not None:
            found = expand(u, v, a, b, bucket.order)
            code = np.where(bucket.order < 0, len(u) - 1, bucket.order).T.ravel()
            by_u += _summed(code, weight * found.by_u, len(u))
            if found.by_v is not None:
                by_v += _summed(code, weight * found.by_v, len(u))
        else:
            clicks = bucket.clicks if affine else np.zeros_like(bucket.clicks)
            found = quadrature_gradient(bucket.at(emission), a, b, clicks, bucket.unclicked, nodes)
            by_u += _by_form(bucket, weight, found.by_u, contexts)
            if found.by_v is not None:
                by_v += _by_form(bucket, weight, found.by_v, contexts)
        value[part], by_alpha[part], by_beta[part] = found[:3]
    value += first[0]
    by_alpha += first[1]
    by_beta += first[2]
    slope = emission.attractive * emission.attractive_rest
    if not affine:
        by_logit = clicked * emission.attractive_rest - slope * by_u
        return BatchGradient(value, by_alpha, by_beta, by_logit)
    other = emission.unattractive * emission.unattractive_rest
    by_x, by_y = (
        own * (parts[contexts:] - parts[:contexts]) for own, parts in ((slope, by_u), (other, by_v))
    )
    return BatchGradient(value, by_alpha, by_beta, np.concatenate([by_x, by_y]))


def pair_log_likelihoods(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    batch: PairBatch,
    nodes: int = NODES,
) -> np.ndarray:
    """The values alone, under each of several emissions (samples, contexts): (samples, pairs)."""
    samples = len(emission.attractive)
    found = np.empty((samples, len(alpha)))
    u, v = forms(emission)
    log_theta = log_attractive(emission)
    total = _total_clicks(batch, emission.is_affine)
    found[...] = 0 if emission.is_affine else attracted(alpha, beta, total)[0]
    after = alpha + total
    for part, bucket in batch.parts():
        a, b = after[part], beta[part]
        if not emission.is_affine:
            found[:, part] += bucket.over_contexts(log_theta)
        if bucket.order is not None:
            found[:, part] += log_expanded(u, v, a, b, bucket.order)
            continue
        clicks = bucket.clicks if emission.is_affine else np.zeros_like(bucket.clicks)
        for sample in range(samples):
            one = Emission(*(None if each is None else each[sample] for each in emission))
            own = (bucket.at(one), a, b, clicks, bucket.unclicked, nodes)
            found[sample, part] += quadrature_log_likelihood(*own)
    return found


class KnownGradient(NamedTuple):
    """Log-likelihoods of pairs at known relevance, and their derivatives.

    Attributes:
        value: (pairs,) without binomial coefficients and weights.
        by_logit_relevance: (pairs,) derivative in the logit of relevance.
        by_logit: (logits,) weighted sum over pairs of the derivatives in the emission's logits.
    """

    value: np.ndarray
    by_logit_relevance: np.ndarray
    by_logit: np.ndarray


def known_gradient(
    emission: Emission, zeta: np.ndarray, other: np.ndarray, batch: PairBatch
) -> KnownGradient:
    r"""Log-likelihood of each pair at a known relevance, and its derivatives.

    .. math:: \sum_k M_k \log P_k + W_k \log(1 - P_k), \qquad P_k = A_k \zeta + B_k (1 - \zeta)

    Args:
        emission: (contexts,) probabilities of a click.
        zeta: (pairs,) relevance.
        other: (pairs,) 1 - relevance.
        batch: counts of the pairs.
    """
    contexts = len(emission.attractive)
    value, by_relevance = np.empty(len(zeta)), np.empty(len(zeta))
    by_logit = np.zeros(contexts * (2 if emission.is_affine else 1))
    for part, bucket in batch.parts():
        local = bucket.at(emission)
        a, a_rest = local.attractive, local.attractive_rest
        b, b_rest = (0.0, 1.0) if not local.is_affine else local[2:]
        z, o = zeta[part][:, None], other[part][:, None]
        # sums of positive terms; contexts without such displays have no term, whatever P is
        click = np.where(bucket.clicks > 0, a * z + b * o, 1.0)
        skip = np.where(bucket.unclicked > 0, a_rest * z + b_rest * o, 1.0)
        value[part] = (bucket.clicks * np.log(click) + bucket.unclicked * np.log(skip)).sum(axis=1)
        # derivative in P
        change = bucket.clicks / click - bucket.unclicked / skip
        by_relevance[part] = (zeta[part] * other[part]) * (change * (a - b)).sum(axis=1)
        own = [change * (a * a_rest) * z]
        if local.is_affine:
            own.append(change * (b * b_rest) * o)
        weight = batch.weight[part]
        sums = [_weighted_sum(bucket, weight, each, contexts) for each in own]
        by_logit += np.concatenate(sums)
    return KnownGradient(value, by_relevance, by_logit)


def _summed(code: np.ndarray, values: np.ndarray, codes: int) -> np.ndarray:
    """Sum of (width, pairs) values by code, without the last code, of missing displays."""
    return np.bincount(code, values.ravel(), codes)[:-1]


def _total_clicks(batch: PairBatch, affine: bool) -> np.ndarray:
    """(pairs,) clicks that turn the Beta of relevance; 0 if they are among the forms."""
    if affine:
        return np.zeros(len(batch.weight))
    return np.concatenate([bucket.clicks.sum(axis=1) for bucket in batch.buckets])


def _weighted_sum(
    bucket: Bucket, weight: np.ndarray, values: np.ndarray, contexts: int
) -> np.ndarray:
    """Weighted sum over pairs of values (pairs, contexts or slots): (contexts,)."""
    if bucket.slots is None:
        return weight @ values
    return np.bincount(bucket.slots.ravel(), (weight[:, None] * values).ravel(), contexts)


def _by_form(bucket: Bucket, weight: np.ndarray, values: np.ndarray, contexts: int) -> np.ndarray:
    """The same for values by form: those of skips and, if there are as many more, of clicks."""
    size = bucket.clicks.shape[1]
    kinds = [values[:, start : start + size] for start in range(0, values.shape[1], size)]
    return np.concatenate([_weighted_sum(bucket, weight, kind, contexts) for kind in kinds])

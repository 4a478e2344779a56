r"""Log-likelihoods of pairs under many parameters, relative to that under given ones.

A pair with many displays would need a quadrature for each of them. Where they are not far from the
given ones, the nodes there serve for all (`tilting`). With s the integral relative to that at the
given ones,

.. math:: \log \mathcal{J}\!\!\mathcal{J}' - \log \mathcal{J}\!\!\mathcal{J} = \log s
          - \log B(a', b') + \log B(a, b) + \sum_k M_k (\log \theta'_k - \log \theta_k),

without the last sum if unattractive items are clicked too: it is then part of the integrand.
"""

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.batch_gradient import pair_log_likelihoods
from epiclick.likelihood.pairs import Bucket, PairBatch
from epiclick.likelihood.quadrature import log_attractive
from epiclick.likelihood.rising import log_beta
from epiclick.likelihood.tilting import tilted

NODES = 40
"""Of the quadrature at the given parameters, with which differences are accurate to 1e-8."""


def relative_log_likelihoods(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    other: Emission,
    other_alpha: np.ndarray,
    other_beta: np.ndarray,
    batch: PairBatch,
) -> np.ndarray:
    """Differences of the log-likelihood of each pair: (draws, pairs).

    Args:
        emission: (contexts,) probabilities of a click at the given parameters.
        alpha: (pairs,) first parameter of the Beta of relevance there.
        beta: (pairs,) second parameter.
        other: (draws, contexts) at the other parameters.
        other_alpha: (draws, pairs).
        other_beta: (draws, pairs).
        batch: counts of the pairs.
    """
    found = np.empty(other_alpha.shape)
    for part, bucket in batch.parts():
        own = (alpha[part], beta[part])
        others = (other_alpha[:, part], other_beta[:, part])
        relative = _by_tilting if bucket.order is None else _in_closed_form
        found[:, part] = relative(emission, *own, other, *others, bucket)
    return found


def _in_closed_form(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    other: Emission,
    other_alpha: np.ndarray,
    other_beta: np.ndarray,
    bucket: Bucket,
) -> np.ndarray:
    """Of pairs with few displays, whose likelihood costs less than nodes."""
    batch = PairBatch((bucket,), np.ones(len(alpha)))
    here = pair_log_likelihoods(_stacked(emission), alpha, beta, batch)[0]
    each = [
        pair_log_likelihoods(_stacked(_of_draw(other, draw)), *betas, batch)[0]
        for draw, betas in enumerate(zip(other_alpha, other_beta, strict=True))
    ]
    return np.stack(each) - here


def _by_tilting(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    other: Emission,
    other_alpha: np.ndarray,
    other_beta: np.ndarray,
    bucket: Bucket,
) -> np.ndarray:
    """Of pairs with many displays."""
    found = tilted(
        emission,
        alpha,
        beta,
        bucket.clicks,
        bucket.unclicked,
        other,
        other_alpha,
        other_beta,
        bucket.slots,
        NODES,
    ).log_sum
    found -= log_beta(other_alpha, other_beta) - log_beta(alpha, beta)
    if not emission.is_affine:
        found += bucket.over_contexts(log_attractive(other) - log_attractive(emission))
    return found


def _of_draw(emission: Emission, draw: int) -> Emission:
    return Emission(*(None if each is None else each[draw] for each in emission))


def _stacked(emission: Emission) -> Emission:
    """The emission as that of one sample."""
    return Emission(*(None if each is None else each[None] for each in emission))

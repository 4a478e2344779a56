r"""Relevance of a pair from its features, as a Beta distribution or as one number.

The network's outputs x_1, x_2 are mean and confidence (paper, section 6):

.. math:: \mu = \sigma(x_1), \quad \nu = |x_2| + 1, \quad \alpha = \mu \nu, \quad
          \beta = (1 - \mu) \nu

The kink of |x| is in the way of a posterior: modes lie on it, where no Gaussian fits. So where
position bias is a point (`estimator="marginal"`) the confidence is smooth, and the same up to 0.05
from x_2 = 3 on:

.. math:: \nu = \log(1 + e^{x_2}) + 1.

Without features the network is its last layer alone, and its inputs are where a pair was shown: one
Beta for all pairs, tilted by the shares of its displays in each context. Were it the same for all,
rankers would deceive it: they show better items higher up, so that clicks lost to lower positions
would be blamed on position, and bias there would come out too low. (What is shown is no part of the
likelihood, so relevance may depend on it; this is Mundlak's device for random effects.)

Functions take the array module, numpy or jax.numpy, so that predicting needs no jax.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from epiclick.network import Layers, apply_mlp, init_mlp, wide_last

START_CONFIDENCE = 1.0
"""First raw confidence of relevance: |x| + 1 has a kink at 0, from which it should start away."""


def init_relevance(
    rng: np.random.Generator,
    features: int,
    hidden: Sequence[int],
    *,
    outputs: int,
    mean: float,
    wide: bool = False,
) -> Layers[np.ndarray]:
    """First layers of a relevance network, whose outputs start around the given mean.

    Args:
        rng: where weights are drawn from.
        features: number of features.
        hidden: units of the hidden layers.
        outputs: 2 for a Beta, 1 for a point.
        mean: relevance to start from, strictly between 0 and 1.
        wide: whether the last layer is given the features and all hidden units.
    """
    *body, (weight, _) = init_mlp(rng, (features, *hidden, outputs))
    layers = (*body, (weight, _first_bias(mean)[:outputs]))
    return wide_last(layers) if wide else layers


def init_exposure(given: int, *, outputs: int, mean: float) -> Layers[np.ndarray]:
    """The first layer for pairs without features: one Beta for all."""
    return ((np.zeros((given, outputs), np.float32), _first_bias(mean)[:outputs]),)


def _first_bias(mean: float) -> np.ndarray:
    return np.array([np.log(mean) - np.log1p(-mean), START_CONFIDENCE], np.float32)


def exposure(displays: np.ndarray) -> np.ndarray:
    """Share of a pair's displays in each given context, (pairs, given contexts) float32.

    Given ones alone: by contexts with a history, shares would tell the clicks to the prior.

    A pair that was never shown counts as shown in all alike: shares of 0 are beyond anything that a
    network has learned from.
    """
    total = displays.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, displays / np.maximum(total, 1), 1 / displays.shape[1])
    return shares.astype(np.float32)


def relevance_betas(
    layers: Layers[Any], x: Any, xp: ModuleType, *, smooth: bool
) -> tuple[Any, Any]:
    """alpha and beta, each (pairs,) float64, of features (pairs, features)."""
    raw = apply_mlp(layers, x).astype(xp.float64)
    return betas_of(raw[:, 0], raw[:, 1], xp, smooth=smooth)


def relevance_points(layers: Layers[Any], x: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Relevance and 1 - relevance, each (pairs,) float64, of features (pairs, features)."""
    raw = apply_mlp(layers, x).astype(xp.float64)
    return probability(raw[:, 0], xp), probability(-raw[:, 0], xp)


def betas_of(mean_logit: Any, confidence: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
    """alpha and beta of a mean in logits and a raw confidence; any shape."""
    nu = (xp.logaddexp(0.0, confidence) if smooth else xp.abs(confidence)) + 1
    return probability(mean_logit, xp) * nu, probability(-mean_logit, xp) * nu


def probability(logit: Any, xp: ModuleType) -> Any:
    """1 / (1 + exp(-logit)), accurate in relative terms on both sides."""
    return xp.exp(-xp.logaddexp(0.0, -logit))

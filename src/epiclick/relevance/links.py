r"""From a network's raw outputs to the Beta of a relevance, or to a point.

The outputs x_1, x_2 are mean and confidence (paper, section 6):

.. math:: \mu = \sigma(x_1), \quad \nu = |x_2| + 1, \quad \alpha = \mu \nu, \quad
          \beta = (1 - \mu) \nu

The kink of |x| is in the way of a posterior: modes lie on it, where no Gaussian fits. So where
the click model's parameters are points (`estimator="marginal"`) the confidence is smooth, and the
same up to 0.05 from x_2 = 3 on:

.. math:: \nu = \log(1 + e^{x_2}) + 1.

Functions take the array module, numpy or jax.numpy, so that predicting needs no jax.
"""

from types import ModuleType
from typing import Any

from epiclick.network import Layers, apply_mlp


def relevance_betas(
    layers: Layers[Any], x: Any, xp: ModuleType, *, smooth: bool
) -> tuple[Any, Any]:
    """alpha and beta, each (pairs,) float64, of features (pairs, features)."""
    raw = apply_mlp(layers, x).astype(xp.float64)
    return betas_of(raw[:, 0], raw[:, 1], xp, smooth=smooth)


def relevance_points(layers: Layers[Any], x: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Relevance and 1 - relevance, each (pairs,) float64, of features (pairs, features)."""
    raw = apply_mlp(layers, x).astype(xp.float64)
    return points_of(raw[:, 0], xp)


def betas_of(mean_logit: Any, confidence: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
    """alpha and beta of a mean in logits and a raw confidence; any shape."""
    nu = (xp.logaddexp(0.0, confidence) if smooth else xp.abs(confidence)) + 1
    return probability(mean_logit, xp) * nu, probability(-mean_logit, xp) * nu


def points_of(logit: Any, xp: ModuleType) -> tuple[Any, Any]:
    """A probability and 1 minus it, of its logit; any shape."""
    return probability(logit, xp), probability(-logit, xp)


def probability(logit: Any, xp: ModuleType) -> Any:
    """1 / (1 + exp(-logit)), accurate in relative terms on both sides."""
    return xp.exp(-xp.logaddexp(0.0, -logit))

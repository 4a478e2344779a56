"""The true relevance of every pair: from its label, or drawn from a Beta its features decide."""

import numpy as np
from scipy.special import expit, logit

from epiclick.beta import Beta
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.network import apply_mlp, init_mlp

HIDDEN = (32,)
CHUNK = 65_536  # rows of the random network at once
TASTE_NODES = 64  # Gauss-Hermite nodes


def label_relevance(labels: np.ndarray) -> np.ndarray:
    """zeta = 0.9 y / 4 + 0.1 for labels y in 0-4 (paper, section 6)."""
    return 0.9 * (np.asarray(labels, dtype=np.float64) / 4) + 0.1


def beta_prior(features: FeatureTable, rng: np.random.Generator) -> Beta:
    r"""Beta distributions that a network of the paper's kind can learn from the features.

    .. math:: \mu = \sigma(-1.1 + 0.75\, g(x)), \quad \nu = 16 + 14 \tanh(h(x) - 0.5),
              \quad \alpha = \mu\nu, \quad \beta = (1 - \mu)\nu

    with g and h the outputs, standardised over the pairs, of a random network with 32 hidden units
    on scaled features. Mean relevance is near 0.27 and its spread near 0.19, as in the label world;
    the confidence nu lies between 2 and 30.
    """
    scaler = FeatureScaler.fit(features.matrix)
    layers = init_mlp(rng, (len(features.names), *HIDDEN, 2))
    outputs = np.empty((len(features), 2))
    for start in range(0, len(features), CHUNK):
        rows = slice(start, start + CHUNK)
        outputs[rows] = apply_mlp(layers, scaler.transform(features.matrix[rows]))
    spread = outputs.std(axis=0)
    outputs = (outputs - outputs.mean(axis=0)) / np.where(spread > 0, spread, 1)
    mean = expit(-1.1 + 0.75 * outputs[:, 0])
    confidence = 16 + 14 * np.tanh(outputs[:, 1] - 0.5)
    return Beta(mean * confidence, (1 - mean) * confidence)


def taste_relevance(relevance: np.ndarray, taste: np.ndarray) -> np.ndarray:
    """One user's relevance: the item's, moved by the user's taste in logit units; same shapes."""
    # A relevance of exactly 1 (label 4) has an infinite logit: everybody's taste leaves it at 1.
    return expit(logit(relevance) + taste)


def mean_over_users(relevance: np.ndarray, taste_sd: float) -> np.ndarray:
    """E[sigmoid(logit zeta + taste)] over taste ~ N(0, taste_sd), by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(TASTE_NODES)
    weights = weights / weights.sum()
    logits = logit(relevance)
    mean = np.zeros_like(logits)
    for node, weight in zip(nodes, weights, strict=True):
        mean += weight * expit(logits + taste_sd * node)
    return mean

"""First layers of a relevance network, from which training starts."""

from collections.abc import Sequence

import numpy as np

from epiclick.network import Layers, init_mlp, wide_last

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


def init_exposure(contexts: int, *, outputs: int, mean: float) -> Layers[np.ndarray]:
    """The first layer for pairs without features: one Beta for all."""
    return ((np.zeros((contexts, outputs), np.float32), _first_bias(mean)[:outputs]),)


def _first_bias(mean: float) -> np.ndarray:
    return np.array([np.log(mean) - np.log1p(-mean), START_CONFIDENCE], np.float32)

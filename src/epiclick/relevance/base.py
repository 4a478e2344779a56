"""What a relevance head is: from a network's raw outputs to what is known of a relevance.

A head says nothing of clicks: which click model it is combined with is an independent choice. What
it makes of raw outputs is a pair of arrays, (first, second): alpha and beta of a Beta, or a
relevance and 1 minus it. Nothing outside of the heads needs to know which.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from epiclick.network import Layers


class RelevanceHead(Protocol):
    """What shared code asks of a head.

    Attributes:
        name: in the registry and in files.
        outputs: raw outputs of the network.
        uses_features: whether the network takes the features of a pair; else where it was shown.
        learns_from_clicks: whether the clicks of an item change what is known of it.
        has_uncertainty: whether a relevance is a distribution, given the parameters.
    """

    name: str
    outputs: int
    uses_features: bool
    learns_from_clicks: bool
    has_uncertainty: bool

    def first_layers(
        self,
        rng: np.random.Generator,
        inputs: int,
        hidden: Sequence[int],
        *,
        mean: float,
        wide: bool = False,
    ) -> Layers[np.ndarray]:
        """Layers to start training from, whose relevances are around the mean.

        Args:
            rng: where weights are drawn from.
            inputs: features, or contexts.
            hidden: units of the hidden layers, where there are any.
            mean: relevance to start from, strictly between 0 and 1.
            wide: whether the last layer is given the features and all hidden units.
        """
        ...

    def of_outputs(self, raw: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
        """First and second, (...,) each, of raw outputs (..., outputs).

        Args:
            raw: float64.
            xp: numpy or jax.numpy.
            smooth: whether the confidence is smooth, see `relevance.links`.
        """
        ...

    def moments(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each relevance."""
        ...

    def draw(self, first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw of each relevance."""
        ...

    def columns(
        self, first: np.ndarray, second: np.ndarray, level: float, above: float | None = None
    ) -> dict[str, np.ndarray]:
        """mean, low, high, alpha, beta, (pairs,) each, of the average over networks.

        Args:
            first: (networks, pairs).
            second: (networks, pairs).
            level: probability of the interval from low to high.
            above: adds `prob_above`, the probability of a relevance above it.
        """
        ...

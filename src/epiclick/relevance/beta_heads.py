"""A Beta distribution for every relevance, from features or from where a pair was shown."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from epiclick.network import Layers
from epiclick.relevance.first_layers import init_exposure, init_relevance
from epiclick.relevance.links import betas_of


class _BetaHead(ABC):
    """What both share: all but their inputs and first layers. `first` is alpha, `second` beta."""

    outputs = 2
    learns_from_clicks = True
    has_uncertainty = True

    @abstractmethod
    def first_layers(
        self,
        rng: np.random.Generator,
        inputs: int,
        hidden: Sequence[int],
        *,
        mean: float,
        wide: bool = False,
    ) -> Layers[np.ndarray]:
        """Layers to start from."""

    def of_outputs(self, raw: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
        """alpha and beta."""
        return betas_of(raw[..., 0], raw[..., 1], xp, smooth=smooth)

    def moments(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the Betas."""
        total = first + second
        mean = first / total
        return mean, mean * (second / total) / (total + 1)

    def draw(self, first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw of each Beta."""
        from epiclick.beta import Beta  # whose scipy loading a model does without

        return Beta(first, second).sample(rng)

    def columns(
        self, first: np.ndarray, second: np.ndarray, level: float, above: float | None = None
    ) -> dict[str, np.ndarray]:
        """Of the mixture over networks; alpha and beta are of the Beta with its moments."""
        from epiclick.relevance.average import BetaAverage, beta_columns

        average = BetaAverage(first, second)
        low, high = (average.quantile(end) for end in ((1 - level) / 2, (1 + level) / 2))
        share = None if above is None else 1 - average.cdf(above)
        return beta_columns(average.matched, average.matched.mean, low, high, share)


class NetworkBeta(_BetaHead):
    """A Beta from the features of a pair."""

    name = "network_beta"
    uses_features = True

    def first_layers(
        self,
        rng: np.random.Generator,
        inputs: int,
        hidden: Sequence[int],
        *,
        mean: float,
        wide: bool = False,
    ) -> Layers[np.ndarray]:
        """A random network."""
        return init_relevance(rng, inputs, hidden, outputs=self.outputs, mean=mean, wide=wide)


class IdBeta(_BetaHead):
    """A Beta for pairs without features, known by their ids; see `relevance.exposure`."""

    name = "id_beta"
    uses_features = False

    def first_layers(
        self,
        rng: np.random.Generator,
        inputs: int,
        hidden: Sequence[int],
        *,
        mean: float,
        wide: bool = False,
    ) -> Layers[np.ndarray]:
        """One layer without hidden units, the same for all pairs."""
        return init_exposure(inputs, outputs=self.outputs, mean=mean)

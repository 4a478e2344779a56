"""A point estimate for every relevance, from features."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from epiclick.network import Layers
from epiclick.relevance.first_layers import init_relevance
from epiclick.relevance.links import points_of


class Point:
    """`first` is the relevance, `second` 1 minus it."""

    name = "point"
    outputs = 1
    uses_features = True
    learns_from_clicks = False
    has_uncertainty = False

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

    def of_outputs(self, raw: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
        """Relevance and 1 - relevance."""
        return points_of(raw[..., 0], xp)

    def moments(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The relevance, and 0."""
        mean = first / (first + second)
        return mean, np.zeros_like(mean)

    def draw(self, first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The relevance itself."""
        return first

    def columns(
        self, first: np.ndarray, second: np.ndarray, level: float, above: float | None = None
    ) -> dict[str, np.ndarray]:
        """Of what the members of an ensemble say; one alone has no interval.

        Low and high are quantiles with straight lines between neighbours; there is no Beta.
        """
        nothing = np.full(first.shape[1], np.nan)
        low = high = share = nothing
        if len(first) > 1:
            low, high = np.quantile(first, [(1 - level) / 2, (1 + level) / 2], axis=0)
            share = nothing if above is None else (first > above).mean(axis=0)
        columns = {
            "mean": first.mean(axis=0),
            "low": low,
            "high": high,
            "alpha": nothing,
            "beta": nothing,
        }
        return columns if above is None else {**columns, "prob_above": share}

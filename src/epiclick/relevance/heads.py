r"""Relevance heads: how the relevance of a pair follows from a network's raw outputs.

Without features the network is its last layer alone, and its inputs are where a pair was shown: one
Beta for all pairs, tilted by the shares of its displays in each given context. Were it the same for
all, rankers would deceive it: they show better items higher up, so that clicks lost to lower
positions would be blamed on position, and bias there would come out too low. (What is shown is no
part of the likelihood, so relevance may depend on it; this is Mundlak's device for random effects.)

The outputs x_1, x_2 are mean and confidence (paper, section 6):

.. math:: \mu = \sigma(x_1), \quad \nu = |x_2| + 1, \quad \alpha = \mu \nu, \quad
          \beta = (1 - \mu) \nu

The kink of |x| is in the way of a posterior: modes lie on it, where no Gaussian fits. So where
the click model's parameters are points (`estimator="marginal"`) the confidence is smooth, and the
same up to 0.05 from x_2 = 3 on:

.. math:: \nu = \log(1 + e^{x_2}) + 1.

Functions take the array module, numpy or jax.numpy, so that predicting needs no jax.

A head says nothing of clicks: which click model it is combined with is an independent choice. What
it makes of raw outputs is a pair of arrays, (first, second): alpha and beta of a Beta, or a
relevance and 1 minus it. Nothing outside of the heads needs to know which.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from epiclick.relevance.network import Layers, apply_mlp, init_exposure, init_relevance


def exposure(displays: np.ndarray) -> np.ndarray:
    """Share of a pair's displays in each given context, (pairs, given contexts) float32.

    Given ones alone: by contexts with a history, shares would report the clicks to the prior.

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
            smooth: whether the confidence is smooth, see `relevance.heads`.
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
    """A Beta for pairs without features, known by their ids; see `relevance.heads`."""

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


NETWORK_BETA, ID_BETA, POINT = NetworkBeta(), IdBeta(), Point()

_ALL: tuple[RelevanceHead, ...] = (NETWORK_BETA, ID_BETA, POINT)

HEADS: Mapping[str, RelevanceHead] = {head.name: head for head in _ALL}

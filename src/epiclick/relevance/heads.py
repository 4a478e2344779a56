r"""Relevance heads: how the relevance of a pair follows from a network's raw outputs.

The outputs x_1, x_2 give the mean and confidence of a Beta (paper, section 6):

.. math:: \mu = \sigma(x_1), \quad \nu = |x_2| + 1, \quad \alpha = \mu \nu, \quad
          \beta = (1 - \mu) \nu

The kink of |x| is an obstacle to a Laplace approximation: modes lie on it, where no Gaussian fits.
Where the click model's parameters are points (`estimator="marginal"`) the confidence is therefore
smooth, and within 0.05 of the above from x_2 = 3 on:

.. math:: \nu = \log(1 + e^{x_2}) + 1.

Without features the network is a single linear layer on the exposure of a pair: the share of its
displays in each given context. A prior that ignored exposure would be biased, because rankers show
better items higher up: clicks lost at lower positions would be attributed to position, and bias
there underestimated. (Exposure is not part of the likelihood, so relevance may depend on it; this
is Mundlak's device for random effects.)

A head is independent of the click model. It turns raw outputs into a pair of arrays (first,
second): alpha and beta of a Beta, or a relevance and 1 minus it. No other module needs to know
which. Functions take the array module, numpy or jax.numpy, so that prediction needs no jax.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from epiclick.relevance.network import Layers, apply_mlp, init_exposure, init_relevance


def exposure(displays: np.ndarray) -> np.ndarray:
    """Share of a pair's displays in each given context, (pairs, given contexts) float32.

    Only given contexts: shares of history contexts would leak the clicks into the prior.

    A pair that was never shown gets equal shares: shares of 0 lie outside the range that a network
    was trained on.
    """
    total = displays.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, displays / np.maximum(total, 1), 1 / displays.shape[1])
    return shares.astype(np.float32)


def relevance_betas(
    layers: Layers[Any], x: Any, xp: ModuleType, *, smooth: bool
) -> tuple[Any, Any]:
    """alpha and beta, each (pairs,) float64, from features (pairs, features)."""
    raw = apply_mlp(layers, x).astype(xp.float64)
    assert raw.shape[1] == 2, "training knows Betas of two outputs; jax would clamp the index"
    return betas_of(raw[:, 0], raw[:, 1], xp, smooth=smooth)


def relevance_points(layers: Layers[Any], x: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Relevance and 1 - relevance, each (pairs,) float64, from features (pairs, features)."""
    raw = apply_mlp(layers, x).astype(xp.float64)
    assert raw.shape[1] == 1
    return points_of(raw[:, 0], xp)


def betas_of(mean_logit: Any, confidence: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
    """alpha and beta from a mean in logits and a raw confidence; any shape."""
    nu = (softplus(confidence, xp) if smooth else xp.abs(confidence)) + 1
    return probability(mean_logit, xp) * nu, probability(-mean_logit, xp) * nu


def betas_slope(
    mean_logit: np.ndarray,
    confidence: np.ndarray,
    by_alpha: np.ndarray,
    by_beta: np.ndarray,
    *,
    smooth: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in the mean in logits and the raw confidence, from those in alpha and beta."""
    mean, other = probability(mean_logit, np), probability(-mean_logit, np)
    if smooth:
        nu, rise = softplus(confidence, np) + 1, probability(confidence, np)
    else:
        nu, rise = np.abs(confidence) + 1, np.sign(confidence)
    return mean * other * nu * (by_alpha - by_beta), rise * (mean * by_alpha + other * by_beta)


FURTHEST = 3.0
"""Largest rise of log confidence in a draw: a factor of 20."""


def scaled_confidence(drawn: np.ndarray, centre: np.ndarray) -> np.ndarray:
    r"""Raw confidences that were drawn from a Gaussian, moved onto a logarithmic scale.

    .. math:: x = \hat x + r (e^{(x' - \hat x) / r} - 1), \qquad
              r = \log(1 + e^{\hat x}) / \sigma(\hat x)

    where r is close to the centre if that is large: x is then the centre times the exponential of
    a relative error. Clicks say how large confidence is up to a factor: where they say little, a
    Gaussian in x would have draws at the least confidence, which they exclude, and intervals of
    items would be too wide. To first order both are the same.

    Args:
        drawn: x', of any shape.
        centre: of the Gaussian, which broadcasts with it.
    """
    scale = softplus(centre, np) / probability(centre, np)
    found = (drawn - centre) / scale
    np.expm1(np.minimum(found, FURTHEST, out=found), out=found)
    found *= scale
    found += centre
    return found


def points_of(logit: Any, xp: ModuleType) -> tuple[Any, Any]:
    """A probability and 1 minus it, from its logit; any shape."""
    return probability(logit, xp), probability(-logit, xp)


def probability(logit: Any, xp: ModuleType) -> Any:
    """1 / (1 + exp(-logit)), accurate in relative terms on both sides."""
    if xp is not np:
        return xp.exp(-xp.logaddexp(0.0, -logit))
    # several times as fast; jax could not differentiate it at 0
    odds = np.exp(-np.abs(np.asarray(logit)))
    found = np.where(logit >= 0, 1.0, odds)
    odds += 1
    found /= odds
    return found


def softplus(x: Any, xp: ModuleType) -> Any:
    """log(1 + exp(x)), which is smooth, and close to x where x is large."""
    if xp is not np:
        return xp.logaddexp(0.0, x)
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@dataclass(frozen=True)
class RelevanceHead(ABC):
    """What shared code needs from a head.

    Attributes:
        name: key in `HEADS` and in model files.
        uses_features: whether the network takes the features of a pair; otherwise its exposure.
        outputs: raw outputs of the network.
        learns_from_clicks: whether an item's clicks update its relevance.
        has_uncertainty: whether a relevance is a distribution, given the parameters.
    """

    name: str
    uses_features: bool
    outputs: ClassVar[int]
    learns_from_clicks: ClassVar[bool]
    has_uncertainty: ClassVar[bool]

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

        Without features, a single layer that is the same for all pairs.

        Args:
            rng: source of the random weights.
            inputs: number of features, or of given contexts without features.
            hidden: units of the hidden layers, where there are any.
            mean: relevance to start from, strictly between 0 and 1.
            wide: whether the last layer takes the features and all hidden units.
        """
        if not self.uses_features:
            return init_exposure(inputs, outputs=self.outputs, mean=mean)
        return init_relevance(rng, inputs, hidden, outputs=self.outputs, mean=mean, wide=wide)

    @abstractmethod
    def of_outputs(self, raw: Any, xp: ModuleType, *, smooth: bool) -> tuple[Any, Any]:
        """First and second, (...,) each, from raw outputs (..., outputs).

        Args:
            raw: float64.
            xp: numpy or jax.numpy.
            smooth: whether the confidence is smooth; see the module's docstring.
        """

    @abstractmethod
    def moments(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each relevance."""

    @abstractmethod
    def draw(self, first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw of each relevance."""

    @abstractmethod
    def columns(
        self,
        first: np.ndarray,
        second: np.ndarray,
        level: float,
        above: float | None = None,
        floor: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """mean, low, high, alpha, beta, (pairs,) each, of the average over networks.

        Args:
            first: (networks, pairs).
            second: (networks, pairs).
            level: probability of the interval from low to high.
            above: adds `prob_above`, the probability of a relevance above it.
            floor: (networks,) least relevance under each (see `relevance.reported`); None for 0.
        """


class BetaHead(RelevanceHead):
    """A Beta for every pair: `first` is alpha, `second` beta."""

    outputs = 2
    learns_from_clicks = True
    has_uncertainty = True

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
        from epiclick.beta import Beta  # loading a model must not need its scipy

        return Beta(first, second).sample(rng)

    def columns(
        self,
        first: np.ndarray,
        second: np.ndarray,
        level: float,
        above: float | None = None,
        floor: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Of the mixture over networks; alpha and beta are moment-matched."""
        from epiclick.relevance.average import BetaAverage, beta_columns

        average = BetaAverage(first, second, floor)
        low, high = (average.quantile(end) for end in ((1 - level) / 2, (1 + level) / 2))
        share = None if above is None else 1 - average.cdf(above)
        return beta_columns(average.matched, average.matched.mean, low, high, share)


class PointHead(RelevanceHead):
    """A point estimate for every pair: `first` is the relevance, `second` 1 minus it."""

    outputs = 1
    learns_from_clicks = False
    has_uncertainty = False

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
        self,
        first: np.ndarray,
        second: np.ndarray,
        level: float,
        above: float | None = None,
        floor: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Over the members of an ensemble; a single network has no interval.

        Low and high are linearly interpolated quantiles; alpha and beta are NaN.
        """
        assert floor is None, "no click model with points has clicks on unattractive items"
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


NETWORK_BETA = BetaHead("network_beta", uses_features=True)
ID_BETA = BetaHead("id_beta", uses_features=False)
POINT = PointHead("point", uses_features=True)

HEADS: Mapping[str, RelevanceHead] = {head.name: head for head in (NETWORK_BETA, ID_BETA, POINT)}

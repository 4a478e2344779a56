r"""The prior of a click model's parameters and of the network's last layer.

The parameters have the click model's own prior (`click_models.priors`). The weights of the last
layer are Gaussian around 0, with standard deviations that let the mean of relevance differ between
items by `MEAN_SPREAD` logits and the raw confidence by `CONFIDENCE_SPREAD`; biases are wider. The
column of exposure (`fitted.exposure`), in standard deviations of a ranker's scores, has its own:
were it among the network's units, hundreds of these would leave them next to nothing. Most rankers
know little beyond the features and some know far more, so the slope of the mean in exposure has a
Cauchy prior of scale r, as a Gaussian whose variance is learned (variational Bayes),

.. math:: s^2 = \tfrac12 \big(E[w^2] + r^2\big).

Where the slope is small it adds little to the width of intervals, where it is large it is left as
the clicks have it.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from epiclick.click_models.priors import ParameterPrior, is_fixed


@dataclass(frozen=True, eq=False)
class Prior:
    """Log prior of the vector of parameters (see `ParameterPosterior`), up to a constant.

    Attributes:
        clicks: of the click model's free parameters, which come first.
        layer_sd: (size of the layer,) of its weights and biases.
        slopes: numbers of the weights in the layer whose standard deviations are learned.
    """

    clicks: ParameterPrior
    layer_sd: np.ndarray
    slopes: tuple[int, ...] = ()

    @property
    def free(self) -> int:
        """Number of the click model's parameters."""
        return len(self.clicks.known_mean)

    def log_density(self, vector: Any, xp: ModuleType = np) -> Any:
        """Log density, up to a constant; traceable with xp=jax.numpy."""
        clicks, layer = vector[: self.free], vector[self.free :]
        return self.clicks.log_density(clicks, xp) - 0.5 * xp.square(layer / self.layer_sd).sum()

    def gradient(self, vector: np.ndarray) -> np.ndarray:
        """(size,) first derivatives."""
        clicks, layer = vector[: self.free], vector[self.free :]
        return np.concatenate([self.clicks.gradient(clicks), -layer / self.layer_sd**2])

    def hessian(self, vector: np.ndarray) -> np.ndarray:
        """(size, size) second derivatives."""
        found = np.diag(np.concatenate([np.zeros(self.free), -1 / self.layer_sd**2]))
        found[: self.free, : self.free] = self.clicks.hessian(vector[: self.free])
        return found

    def with_slopes(self, vector: np.ndarray, covariance: np.ndarray) -> "Prior":
        """The prior with the standard deviations of slopes learned.

        Args:
            vector: (size,) mode of the posterior.
            covariance: (size, size) of the posterior there.
        """
        spread = self.layer_sd.copy()
        for slope in self.slopes:
            place = self.free + slope
            spread[slope] = _learned_sd(vector[place], covariance[place, place], spread[slope])
        return replace(self, layer_sd=spread)

    @property
    def fixed(self) -> np.ndarray:
        """(size,) whether a parameter was given as a fixed value rather than a prior."""
        return np.concatenate([is_fixed(self.clicks), np.zeros(len(self.layer_sd), bool)])

    def learned(self, vector: np.ndarray, hessian: np.ndarray) -> "Prior":
        """The prior with its hyperparameters estimated; itself if it has none.

        Args:
            vector: (size,) mode of the posterior.
            hessian: (size, size) of its log density there.
        """
        free, assumed = self.free, -self.hessian(vector)
        information = -hessian - assumed
        # information on the parameters with the last layer profiled out
        follow = np.linalg.solve(-hessian[free:, free:], information[free:, :free])
        own = information[:free, :free] - information[:free, free:] @ follow
        slope = -self.gradient(vector)[:free]  # at the mode, both sum to 0
        clicks = self.clicks.learned(vector[:free], slope, own)
        return self if clicks is self.clicks else replace(self, clicks=clicks)


MEAN_SPREAD = 1.5
CONFIDENCE_SPREAD = 10.0
BIAS_WIDENING = 2.0
"""Standard deviation of the biases relative to that of outputs between items."""


EXPOSURE_SPREAD = np.array([1.0, 2.0])
"""Standard deviation of the weights of exposure, for the mean in logits, where it is not learned
yet, and for the raw confidence."""

SLOPE_SCALE = 0.2
"""r of the Cauchy prior of the slope of relevance in exposure, in logits."""

ROUNDS = 100
"""Of the search for a learned variance, at most."""


def _learned_sd(mode: float, variance: float, spread: float) -> float:
    """Standard deviation of a slope, from its posterior under another one, which is `spread`."""
    information = max(1 / variance - 1 / spread**2, 0.0)  # of the clicks alone
    pull = mode / variance
    prior = spread**2
    for _ in range(ROUNDS):
        own = 1 / (information + 1 / prior)
        before, prior = prior, ((own * pull) ** 2 + own + SLOPE_SCALE**2) / 2
        if abs(prior - before) < 1e-9 * before:
            break
    return float(np.sqrt(prior))


def layer_spread(mean_square: np.ndarray, exposure: slice | None = None) -> np.ndarray:
    """(size of the layer,) prior standard deviation of weights (row by row) and biases.

    Args:
        mean_square: (units,) mean square of each unit over the pairs; their sum sets the scale.
        exposure: the columns of exposure among the units, if there are any.
    """
    outputs = np.array([MEAN_SPREAD, CONFIDENCE_SPREAD])
    own = np.ones(len(mean_square), bool)
    own[exposure or slice(0)] = False
    spread = outputs / np.sqrt(max(float(mean_square[own].sum()), 1e-12))
    weights = np.tile(spread, (len(own), 1))
    weights[~own] = EXPOSURE_SPREAD
    return np.concatenate([weights.ravel(), BIAS_WIDENING * outputs])


def slopes_in(exposure: slice | None, units: int, layers: int = 1) -> tuple[int, ...]:
    """Numbers of the weights of exposure for the mean, among those of layers one after the other.

    Args:
        exposure: the columns of exposure among the units, if there are any.
        units: number of inputs of each layer.
        layers: number of layers, all with the same inputs and two outputs, the mean first.
    """
    number = np.arange(layers * (units + 1) * 2).reshape(layers, units + 1, 2)
    return tuple(number[:, exposure or slice(0), 0].ravel().tolist())

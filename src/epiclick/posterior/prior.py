r"""What is assumed of position bias and of the last layer before any click.

Position bias is uniform between 0 and 1, in logits :math:`\log \sigma(x) + \log \sigma(-x)`, unless
something is known of it from elsewhere: then it is Gaussian in logits. The weights of the last
layer are Gaussian around 0, as wide as lets the mean of relevance differ between items by
`MEAN_SPREAD` logits and the raw confidence by `CONFIDENCE_SPREAD`; its biases are wider.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

MEAN_SPREAD = 1.5
CONFIDENCE_SPREAD = 10.0
BIAS_WIDENING = 2.0
"""The biases are so many times as uncertain as outputs differ between items."""

HELD_SD = 1e-4
"""Standard deviation, in logits, of a bias that is held as given."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Log prior of the vector of parameters (see `ParameterPosterior`), up to a constant.

    Attributes:
        position_mean: (free contexts,) of logits known from elsewhere; NaN where uniform.
        position_sd: (free contexts,) their standard deviation.
        layer_sd: (size of the layer,) of its weights and biases.
    """

    position_mean: np.ndarray
    position_sd: np.ndarray
    layer_sd: np.ndarray

    def log_density(self, vector: np.ndarray) -> float:
        """Logarithm of the density, up to a constant."""
        logit, layer = self._split(vector)
        uniform = special.log_expit(logit) + special.log_expit(-logit)
        known = -0.5 * ((logit - self.position_mean) / self.position_sd) ** 2
        return float(
            np.where(self._known, known, uniform).sum()
            - 0.5 * np.square(layer / self.layer_sd).sum()
        )

    def gradient(self, vector: np.ndarray) -> np.ndarray:
        """(size,) first derivatives."""
        logit, layer = self._split(vector)
        known = (self.position_mean - logit) / self.position_sd**2
        position = np.where(self._known, known, 1 - 2 * special.expit(logit))
        return np.concatenate([position, -layer / self.layer_sd**2])

    def hessian(self, vector: np.ndarray) -> np.ndarray:
        """(size, size) second derivatives."""
        logit, _ = self._split(vector)
        uniform = -2 * special.expit(logit) * special.expit(-logit)
        position = np.where(self._known, -1 / self.position_sd**2, uniform)
        return np.diag(np.concatenate([position, -1 / self.layer_sd**2]))

    @property
    def held(self) -> np.ndarray:
        """(size,) whether a parameter was given as it is, not as a prior."""
        return np.concatenate([self.position_sd <= HELD_SD, np.zeros(len(self.layer_sd), bool)])

    @property
    def _known(self) -> np.ndarray:
        return np.isfinite(self.position_mean)

    def _split(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = len(self.position_mean)
        return vector[:size], vector[size:]


def layer_spread(mean_square: np.ndarray) -> np.ndarray:
    """(size of the layer,) prior standard deviation of weights (row by row) and biases.

    Args:
        mean_square: (units,) mean square of each unit over the pairs, whose sum sets the scale.
    """
    outputs = np.array([MEAN_SPREAD, CONFIDENCE_SPREAD])
    weights = outputs / np.sqrt(max(float(mean_square.sum()), 1e-12))
    return np.concatenate([np.tile(weights, len(mean_square)), BIAS_WIDENING * outputs])

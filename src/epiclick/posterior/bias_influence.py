r"""Position bias at the mode of the posterior, and what it owes to each group of queries.

With g_q the gradient of the log-likelihood of group q and H minus the Hessian at the mode,

.. math:: \mathrm{IF}_q(\log\theta_c) = (1 - \theta_c)\, \nabla_{\!x} \operatorname{logit}\theta_c
          \cdot H^{-1} g_q .

The body of the network is taken as known, and relevance as independent of exposure: with exposure
in its prior, a model agrees with items that moved. Weights w of exposure are set to 0, to second
order of the log density: with C the covariance, the mode moves by
:math:`-C_{\cdot w} C_{ww}^{-1} w`, and C becomes the conditional one given w. The prior pulls a
bias away from 0 and 1, by half a standard error of its difference to another estimate in small
logs; one Newton step, :math:`-H^{-1} \nabla \log p(\theta)`, takes its pull away.
"""

import numpy as np

from epiclick.identification.bias_estimate import BiasEstimate
from epiclick.posterior.density import Density
from epiclick.posterior.mode import Mode


def bias_influence(
    density: Density, mode: Mode, covariance: np.ndarray, exposure: slice | None = None
) -> BiasEstimate | None:
    """The model's position bias relative to the anchor's, or without one to the first context's.

    None where unattractive items are clicked too, so that clicks are not in proportion to it, and
    where examination is known.

    Args:
        density: of the parameters.
        mode: its maximum.
        covariance: (size, size) inverse of minus the Hessian there.
        exposure: rows of the last layer's weights that belong to exposure, if there are any.
    """
    emitter, free = density.emitter, density.prior.free
    if emitter.clicks.is_affine or emitter.clicks.knows_examination:
        return None
    vector = mode.vector
    if exposure is not None:
        vector, covariance = _without(vector, covariance, _weights(exposure, free))
    pull = np.zeros_like(vector)
    pull[:free] = density.prior.gradient(vector)[:free]
    own = (vector - covariance @ pull)[:free]
    emission = emitter.emission(own)
    slope = emission.attractive_rest[:, None] * emitter.jacobian(own)  # (contexts, free)
    scores = mode.curvature.scores
    influence = scores @ (covariance[:, :free] @ slope.T)
    reference = emitter.anchor or 0
    log_bias = np.log(emission.attractive)
    return BiasEstimate(
        log_bias=log_bias - log_bias[reference],
        influence=influence - influence[:, [reference]],
        information=np.square(influence).sum(axis=1),
    )


def _weights(rows: slice, free: int) -> np.ndarray:
    """Places in the vector of parameters of rows of the last layer, which has two outputs."""
    return np.arange(free + 2 * rows.start, free + 2 * rows.stop)


def _without(
    vector: np.ndarray, covariance: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mode and covariance given that some weights are 0."""
    gain = np.linalg.solve(covariance[np.ix_(weights, weights)], covariance[weights])
    return vector - vector[weights] @ gain, covariance - covariance[:, weights] @ gain

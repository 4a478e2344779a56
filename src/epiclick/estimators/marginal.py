"""Position bias as a point, relevance integrated out: the gradient of the likelihood itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.estimators.estimator import Betas, Draws, Gradient
from epiclick.likelihood.batch_gradient import batch_gradient
from epiclick.likelihood.pairs import PairBatch

NODES = 40
"""Of the quadrature for heads: more accurate than the network, which is float32."""


@dataclass(frozen=True)
class Marginal:
    r"""Type-II maximum likelihood, without samples.

    .. math:: \log \mathcal L(\theta) = \sum_{qd} \log E_{\zeta_{qd}}\Big[\prod_k
              (\theta_k \zeta)^{M_k} (1 - \theta_k \zeta)^{W_k}\Big]

    Thousands of pairs share each position bias, so the distribution that the paper's likelihood
    integrates over is narrow, and the width it fits depends on the batch size. Here the posterior
    of position bias is computed after training instead.
    """

    is_point: ClassVar[bool] = True

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Emission) -> None:
        """Nothing is sampled."""

    def gradient(
        self, relevance: Betas, position: Emission, batch: PairBatch, draws: Draws | None = None
    ) -> Gradient:
        """The log-likelihood of one batch and its derivatives."""
        found = batch_gradient(position, *relevance, batch, NODES)
        weight = batch.weight
        by_relevance = Betas(weight * found.by_alpha, weight * found.by_beta)
        return Gradient(float(weight @ found.value), by_relevance, found.by_logit)

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

"""Position bias as a point, relevance integrated out: the gradient of the likelihood itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import jax
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.estimators.estimator import Betas, Draws, Estimate
from epiclick.likelihood.pairs import PairBatch, log_likelihoods


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

    def estimate(
        self, relevance: Betas, position: Emission, batch: PairBatch, draws: Draws | None = None
    ) -> Estimate:
        """The log-likelihood of one batch, which is its own surrogate."""
        one = jax.tree.map(lambda part: part[None], position)  # (1, contexts)
        value = log_likelihoods(one, relevance.alpha, relevance.beta, batch)[0]
        return Estimate(value, value)

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

"""The conditioned estimator in the limit of many relevance samples: relevance integrated out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.estimators import sampling
from epiclick.estimators.estimator import LEAST_LOG_THETA, Betas, Draws
from epiclick.estimators.sampling import Estimate
from epiclick.likelihood.pairs import PairBatch
from epiclick.traced.batch_likelihood import log_likelihoods


@dataclass(frozen=True)
class Exact(sampling.SamplingEstimator):
    r"""Sampled position bias, and each pair's relevance integrated in closed form.

    .. math:: o_i = \sigma_i\Big(\sum_{qd} \log \mathcal J_{qd}(\theta^{(i)})\Big), \quad
              \nabla_\theta \log \mathcal L \approx \sum_i o_i \nabla \log p(\theta^{(i)}), \quad
              \nabla_\zeta \log \mathcal L \approx \sum_i o_i \sum_{qd}
              \nabla \log \mathcal J_{qd}(\theta^{(i)})

    Attributes:
        samples: samples of position bias.
        baseline: whether the mean weight of the other samples is subtracted in the gradient for
            position bias; the gradient for relevance has no score functions.
    """

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Betas) -> Draws:
        """Samples of position bias alone."""
        return Draws(*sampling.draw_position(rng, position, self.samples))

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""
        assert draws is not None
        each = self.log_likelihoods(relevance, batch, draws)
        outer = sampling.likelihood_shares(each)
        of_position = sampling.position_surrogate(position, draws, self.centered(outer))
        return Estimate(outer @ each + of_position, sampling.log_mean(each))

    def log_likelihoods(self, relevance: Betas, batch: PairBatch, draws: Draws) -> jax.Array:
        """Log-likelihood of the batch at each sample of position bias: (samples,)."""
        theta = jnp.exp(jnp.maximum(draws.log_theta, LEAST_LOG_THETA))
        emission = Emission(theta, jnp.exp(draws.log_rest))
        return log_likelihoods(emission, relevance.alpha, relevance.beta, batch)

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

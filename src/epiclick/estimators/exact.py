"""The conditioned estimator in the limit of many relevance samples: relevance integrated out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.estimators.estimator import Betas, Draws, Estimate, check_samples
from epiclick.estimators.sampling import (
    LEAST_LOG_THETA,
    draw_position,
    leave_one_out,
    weighted_log_density,
)
from epiclick.likelihood.pairs import PairBatch, log_likelihoods


@dataclass(frozen=True)
class Exact:
    r"""Sampled position bias, and each pair's relevance integrated in closed form.

    .. math:: o_i = \sigma_i\Big(\sum_{qd} \log \mathcal J_{qd}(\theta^{(i)})\Big), \quad
              \nabla_\theta \log \mathcal L \approx \sum_i o_i \nabla \log p(\theta^{(i)}), \quad
              \nabla_\zeta \log \mathcal L \approx \sum_i o_i \sum_{qd}
              \nabla \log \mathcal J_{qd}(\theta^{(i)})

    Attributes:
        samples: samples of position bias.
        baseline: whether the mean weight of the other samples is subtracted in the gradient for
            position bias; that for relevance has no score functions.
    """

    is_point: ClassVar[bool] = False
    samples: int = 60
    baseline: bool = False

    def __post_init__(self) -> None:
        """Refuse too few samples."""
        check_samples(self.samples, self.baseline)

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Betas) -> Draws:
        """Samples of position bias alone."""
        return Draws(*draw_position(rng, position, self.samples))

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""
        assert draws is not None
        theta = jnp.exp(jnp.maximum(draws.log_theta, LEAST_LOG_THETA))
        emission = Emission(theta, jnp.exp(draws.log_rest))
        each = log_likelihoods(emission, relevance.alpha, relevance.beta, batch)  # (samples,)
        outer = jax.lax.stop_gradient(jax.nn.softmax(each))
        of_pairs = outer @ each
        if self.baseline:
            outer = leave_one_out(outer)
        of_contexts = weighted_log_density(position, draws.log_theta.T, draws.log_rest.T, outer)
        return Estimate(
            of_pairs + of_contexts.sum(),
            jax.nn.logsumexp(each) - jnp.log(self.samples),
        )

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

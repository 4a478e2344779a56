"""The paper's plain Monte Carlo gradient of the likelihood (its section 4.1)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp

from epiclick.estimators.sampling import JointEstimator

MOST_NATS = 20.0
"""Weights are kept below exp(20) = 5e8, because the network is differentiated in float32; the
excess is returned as a factor on the gradient."""


@dataclass(frozen=True)
class Naive(JointEstimator):
    r"""Score functions weighted by likelihoods.

    .. math:: \nabla \mathcal L \approx \frac1S \sum_i \tilde L^{(i)}
              \big(\nabla \log p(\zeta^{(i)}) + \nabla \log p(\theta^{(i)})\big)

    The likelihood of thousands of pairs underflows to 0 in float64, and so does its gradient;
    `literal` keeps that. Otherwise likelihoods are relative to that of the run's first batch, a
    constant factor on all gradients: a batch that is more likely by n nats has exp(n) times the
    weight.

    Attributes:
        samples: joint samples of position bias and relevance.
        baseline: whether the mean likelihood of the other samples is subtracted.
        literal: whether likelihoods are used as they are.
        log_offset: log-likelihood that the others are relative to.
    """

    literal: bool = False
    log_offset: float = 0.0

    def weigh(self, log_likelihoods: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Likelihoods relative to the offset, divided by the number of samples."""
        offset = self.capped_offset(log_likelihoods)
        weights = self.centered(jnp.exp(log_likelihoods - offset))
        return weights / self.samples, offset - self.log_offset

    def capped_offset(self, log_likelihoods: jax.Array) -> jax.Array:
        """The offset, or more where float32 could not represent the largest likelihood."""
        return jnp.maximum(self.log_offset, log_likelihoods.max() - MOST_NATS)

    def started(self, measure: Callable[[], float]) -> Self:
        """Likelihoods relative to that of the first batch, unless `literal`."""
        return self if self.literal else replace(self, log_offset=measure())

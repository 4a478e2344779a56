"""The paper's plain Monte Carlo gradient of the log-likelihood (its section 5.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import jax

from epiclick.estimators import sampling


@dataclass(frozen=True)
class SelfNormalized(sampling.JointEstimator):
    r"""Score functions weighted by shares of the likelihood.

    .. math:: \nabla \log \mathcal L \approx \sum_i \sigma_i(\log \tilde L)
              \big(\nabla \log p(\zeta^{(i)}) + \nabla \log p(\theta^{(i)})\big)

    The paper has a further factor 1/S, although the softmax already is a mean over samples; it
    gives the entropy S times the weight. `literal` keeps it.

    Attributes:
        samples: joint samples of position bias and relevance.
        baseline: whether the mean weight of the other samples is subtracted.
        literal: whether the paper's factor 1/S is kept.
    """

    literal: bool = False

    def weigh(self, log_likelihoods: jax.Array) -> tuple[jax.Array, float]:
        """Shares of the likelihood."""
        weights = self.centered(sampling.likelihood_shares(log_likelihoods))
        return weights / self.samples if self.literal else weights, 0.0

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

"""The paper's estimator: relevance sampled for each sample of position bias (its section 5.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.estimators.estimator import Betas, Draws, Estimate, check_samples
from epiclick.estimators.sampling import (
    draw_joint,
    leave_one_out,
    sampled_weights,
    weighted_log_density,
)
from epiclick.likelihood.pairs import PairBatch


@dataclass(frozen=True)
class Conditioned:
    r"""Score functions weighted by shares of the likelihood, pair by pair given position bias.

    With J_ij the likelihood of a pair's clicks at its relevance sample j and position bias i,

    .. math:: \log \tilde{\mathcal J}_i = \log \frac1S \sum_j J_{ij}, \qquad
              o_i = \sigma_i\Big(\sum_{qd} \log \tilde{\mathcal J}_i\Big), \qquad
              w_{ij} = \frac{J_{ij}}{\sum_{j'} J_{ij'}},

    the gradients are

    .. math:: \nabla_\theta \log \mathcal L \approx \sum_i o_i \nabla \log p(\theta^{(i)}), \qquad
              \nabla_\zeta \log \mathcal L \approx \sum_i o_i \sum_{qd} \sum_j
              w_{ij} \nabla \log p(\zeta_{qd}^{(j)}).

    The paper has a further factor 1/S, which belongs to the mean that the softmax already is; it
    makes the entropy weigh S times as much. That is `literal`.

    Attributes:
        samples: samples of position bias, and of each pair's relevance.
        baseline: whether the mean weight of the other samples is subtracted: of o_i in the gradient
            for position bias, of w_ij in that for relevance. There o_i weighs no score function of
            its own samples, and stays as it is.
        literal: whether the paper's factor 1/S is kept.
    """

    is_point: ClassVar[bool] = False
    samples: int = 60
    baseline: bool = False
    literal: bool = False

    def __post_init__(self) -> None:
        """Refuse too few samples."""
        check_samples(self.samples, self.baseline)

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Betas) -> Draws:
        """As many samples of position bias as of each pair's relevance."""
        return draw_joint(rng, relevance, position, self.samples)

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""
        assert draws is not None
        log_likelihoods, inner = sampled_weights(batch, draws)  # sum_i o_i w_ij: (pairs, samples)
        outer = jax.nn.softmax(log_likelihoods)
        if self.baseline:
            outer = leave_one_out(outer)
            # the o_i add up to 1, so that leaving one out commutes with their sum
            inner = leave_one_out(inner)
        of_pairs = weighted_log_density(relevance, *draws.relevance, inner)
        of_contexts = weighted_log_density(position, draws.log_theta.T, draws.log_rest.T, outer)
        surrogate = jnp.dot(batch.weight, of_pairs) + of_contexts.sum()
        return Estimate(
            surrogate / self.samples if self.literal else surrogate,
            jax.nn.logsumexp(log_likelihoods) - jnp.log(self.samples),
        )

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

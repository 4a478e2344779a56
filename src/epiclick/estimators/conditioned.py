"""The paper's estimator: relevance sampled for each sample of position bias (its section 5.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from epiclick.estimators import sampling
from epiclick.estimators.estimator import Betas, Draws
from epiclick.estimators.sampling import Estimate
from epiclick.likelihood.pairs import PairBatch


@dataclass(frozen=True)
class Conditioned(sampling.SamplingEstimator):
    r"""Score functions weighted by shares of the likelihood, pair by pair given position bias.

    With J_ij the likelihood of a pair's clicks at its relevance sample j and position bias i,

    .. math:: \log \tilde{\mathcal J}_i = \log \frac1S \sum_j J_{ij}, \qquad
              o_i = \sigma_i\Big(\sum_{qd} \log \tilde{\mathcal J}_i\Big), \qquad
              w_{ij} = \frac{J_{ij}}{\sum_{j'} J_{ij'}},

    the gradients are

    .. math:: \nabla_\theta \log \mathcal L \approx \sum_i o_i \nabla \log p(\theta^{(i)}), \qquad
              \nabla_\zeta \log \mathcal L \approx \sum_i o_i \sum_{qd} \sum_j
              w_{ij} \nabla \log p(\zeta_{qd}^{(j)}).

    The paper has a further factor 1/S, although the softmax already is a mean over samples; it
    gives the entropy S times the weight. `literal` keeps it.

    Attributes:
        samples: samples of position bias, and of each pair's relevance.
        baseline: whether the mean weight of the other samples is subtracted: from o_i in the
            gradient for position bias, from w_ij in that for relevance. The latter keeps o_i as it
            is, which does not weight score functions of its own samples there.
        literal: whether the paper's factor 1/S is kept.
    """

    literal: bool = False

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Betas) -> Draws:
        """As many samples of position bias as of each pair's relevance."""
        return sampling.draw_joint(rng, relevance, position, self.samples)

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""
        assert draws is not None
        # inner: sum_i o_i w_ij, (pairs, samples)
        log_likelihoods, inner = sampling.sampled_weights(batch, draws)
        outer = self.centered(sampling.likelihood_shares(log_likelihoods))
        # the o_i sum to 1, so the baseline of w_ij can be subtracted after the sum over i
        inner = self.centered(inner)
        surrogate = sampling.score_surrogate(relevance, position, batch, draws, inner, outer)
        return Estimate(
            surrogate / self.samples if self.literal else surrogate,
            sampling.log_mean(log_likelihoods),
        )

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

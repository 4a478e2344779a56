"""The paper's plain Monte Carlo gradient of the log-likelihood (its section 5.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.estimators.estimator import Betas, Draws, Estimate, check_samples
from epiclick.estimators.sampling import (
    draw_joint,
    joint_log_likelihoods,
    joint_scores,
    leave_one_out,
)
from epiclick.likelihood.pairs import PairBatch


@dataclass(frozen=True)
class SelfNormalized:
    r"""Score functions weighted by shares of the likelihood.

    .. math:: \nabla \log \mathcal L \approx \sum_i \sigma_i(\log \tilde L)
              \big(\nabla \log p(\zeta^{(i)}) + \nabla \log p(\theta^{(i)})\big)

    The paper has a further factor 1/S, which belongs to the mean that the softmax already is; it
    makes the entropy weigh S times as much. That is `literal`.

    Attributes:
        samples: joint samples of position bias and relevance.
        baseline: whether the mean weight of the other samples is subtracted.
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
        """Joint samples: the i-th of every pair goes with the i-th bias."""
        return draw_joint(rng, relevance, position, self.samples)

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""
        assert draws is not None
        log_likelihoods = joint_log_likelihoods(batch, draws)  # (samples,)
        weights = jax.nn.softmax(log_likelihoods)
        if self.baseline:
            weights = leave_one_out(weights)
        if self.literal:
            weights = weights / self.samples
        return Estimate(
            joint_scores(relevance, position, batch, draws, weights),
            jax.nn.logsumexp(log_likelihoods) - jnp.log(self.samples),
        )

    def started(self, measure: Callable[[], float]) -> Self:
        """The same estimator."""
        return self

"""The paper's plain Monte Carlo gradient of the likelihood (its section 4.1)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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

MOST_NATS = 20.0
"""Weights are held below exp(20) = 5e8, as the network is differentiated in float32; what is above
is handed on as a factor on the gradient."""


@dataclass(frozen=True)
class Naive:
    r"""Score functions weighted by likelihoods.

    .. math:: \nabla \mathcal L \approx \frac1S \sum_i \tilde L^{(i)}
              \big(\nabla \log p(\zeta^{(i)}) + \nabla \log p(\theta^{(i)})\big)

    The likelihood of thousands of pairs is 0 in float64, and so is its gradient; that is `literal`.
    Otherwise likelihoods are taken relative to that of the run's first batch, a constant factor on
    all gradients: a batch that is likelier than another by some nats has as many times its weight.

    Attributes:
        samples: joint samples of position bias and relevance.
        baseline: whether the mean likelihood of the other samples is subtracted.
        literal: whether likelihoods are used as they are.
        log_offset: log-likelihood to which others are relative.
    """

    is_point: ClassVar[bool] = False
    samples: int = 60
    baseline: bool = False
    literal: bool = False
    log_offset: float = 0.0

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
        offset = jnp.maximum(self.log_offset, log_likelihoods.max() - MOST_NATS)
        weights = jnp.exp(log_likelihoods - offset)
        if self.baseline:
            weights = leave_one_out(weights)
        return Estimate(
            joint_scores(relevance, position, batch, draws, weights / self.samples),
            jax.nn.logsumexp(log_likelihoods) - jnp.log(self.samples),
            offset - self.log_offset,
        )

    def started(self, measure: Callable[[], float]) -> Self:
        """Likelihoods relative to that of the first batch, unless they are to be literal."""
        return self if self.literal else replace(self, log_offset=measure())

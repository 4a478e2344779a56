"""The interface of an estimator: from Betas and counts to a gradient of the likelihood."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.pairs import PairBatch

LEAST_LOG_THETA = -700.0
"""Smaller biases underflow in float64; after a click they would have no weight anyway."""


class Betas(NamedTuple):
    """Beta distributions, one per pair or per context; both arrays of one shape, float64."""

    alpha: Any
    beta: Any


@dataclass(frozen=True)
class Draws:
    """Logarithms of samples: of position bias, and of relevance where the estimator needs them.

    Attributes:
        log_theta: (samples, contexts) float64.
        log_rest: (samples, contexts) logarithm of 1 - theta, float64.
        log_zeta: (pairs, samples) logarithm of relevance, float32, or None.
        log_other: (pairs, samples) logarithm of 1 - relevance, float32, or None.
    """

    log_theta: Any
    log_rest: Any
    log_zeta: Any = None
    log_other: Any = None

    @property
    def relevance(self) -> tuple[Any, Any]:
        """`log_zeta` and `log_other`, for an estimator that has drawn them."""
        assert self.log_zeta is not None
        assert self.log_other is not None
        return self.log_zeta, self.log_other


class Gradient(NamedTuple):
    """An estimator's result for one batch, pairs weighted.

    Attributes:
        log_likelihood: the estimated log-likelihood.
        by_relevance: derivatives in alpha and beta of each pair's relevance.
        by_position: derivatives in alpha and beta of each context's bias; or, where parameters are
            points, in the logits of the emission (logits,), see `likelihood.batch_gradient`.
        log_scale: logarithm of a factor on all derivatives that would overflow them.
    """

    log_likelihood: float
    by_relevance: Betas
    by_position: Betas | np.ndarray
    log_scale: float = 0.0


Position = TypeVar("Position", Betas, Emission, contravariant=True)


class Estimator(Protocol, Generic[Position]):
    """One way to follow the gradient of the likelihood."""

    is_point: ClassVar[bool]
    """Whether the click model's parameters are points during training rather than Betas."""

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Position) -> Draws | None:
        """Samples for one batch; None where none are needed."""
        ...

    def gradient(
        self, relevance: Betas, position: Position, batch: PairBatch, draws: Draws | None
    ) -> Gradient:
        """Log-likelihood and gradient of one batch, given its samples."""
        ...

    def started(self, measure: Callable[[], float]) -> Self:
        """The estimator of one run; `measure` estimates the log-likelihood of its first batch."""
        ...

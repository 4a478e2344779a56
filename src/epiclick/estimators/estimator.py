"""The interface of an estimator: from Betas and counts to a gradient of the likelihood."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import jax
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.pairs import Array, PairBatch


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Betas:
    """Beta distributions, one per pair or per context; both arrays of one shape, float64."""

    alpha: jax.Array
    beta: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Draws:
    """Logarithms of samples: of position bias, and of relevance where the estimator needs them.

    Attributes:
        log_theta: (samples, contexts) float64.
        log_rest: (samples, contexts) logarithm of 1 - theta, float64.
        log_zeta: (pairs, samples) logarithm of relevance, float32, or None.
        log_other: (pairs, samples) logarithm of 1 - relevance, float32, or None.
    """

    log_theta: Array
    log_rest: Array
    log_zeta: Array | None = None
    log_other: Array | None = None

    @property
    def relevance(self) -> tuple[Array, Array]:
        """`log_zeta` and `log_other`, for an estimator that has drawn them."""
        assert self.log_zeta is not None
        assert self.log_other is not None
        return self.log_zeta, self.log_other


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Estimate:
    """What an estimator returns for one batch.

    Attributes:
        surrogate: scalar whose gradient for the parameters is the estimated gradient. Its value has
            no meaning.
        log_likelihood: scalar, the estimated log-likelihood of the batch, pairs weighted.
        log_scale: logarithm of a factor on the gradient that would overflow float32.
    """

    surrogate: jax.Array
    log_likelihood: jax.Array
    log_scale: jax.Array | float = 0.0


Position = TypeVar("Position", Betas, Emission, contravariant=True)


class Estimator(Protocol, Generic[Position]):
    """One way to follow the gradient of the likelihood.

    `draw` runs on the host, since numpy's generator is several times faster than one inside a
    compiled program; `estimate` is pure and is compiled.
    """

    is_point: ClassVar[bool]
    """Whether the click model's parameters are points during training rather than Betas."""

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Position) -> Draws | None:
        """Samples for one batch; None where none are needed."""
        ...

    def estimate(
        self, relevance: Betas, position: Position, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch, given its samples."""
        ...

    def started(self, measure: Callable[[], float]) -> Self:
        """The estimator of one run; `measure` estimates the log-likelihood of its first batch."""
        ...

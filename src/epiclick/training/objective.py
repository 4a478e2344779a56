r"""What training maximises, per pair of the batch:

.. math:: \frac{\log \tilde{\mathcal L}}{\text{pairs}} + \lambda \bar{\mathbf H}'

as in section 5.4 of the paper, but for the division by pairs.

An objective connects a model (parameters to Betas) with an estimator (Betas and counts to a
gradient), and scores held-out pairs in the same way for all estimators.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import ClickModel, Emission
from epiclick.errors import InputError
from epiclick.estimators.entropy import modified_entropy
from epiclick.estimators.estimator import Betas, Draws, Estimator
from epiclick.estimators.sampling import LEAST_LOG_THETA, draw_position
from epiclick.fitted.parameters import Parameters, position_betas
from epiclick.likelihood.pairs import PairBatch, known_log_likelihoods, pair_log_likelihoods
from epiclick.relevance.heads import relevance_betas, relevance_points


class Diverged(InputError):
    """Likelihood, gradient or parameters are no longer finite."""


class LossAux(NamedTuple):
    """A batch's log-likelihood, and the logarithm of a factor on its gradient."""

    log_likelihood: jax.Array
    log_scale: jax.Array | float


class Objective(Protocol):
    """What the training loop needs from a model."""

    @property
    def is_point(self) -> bool:
        """Whether the click model's parameters are points during training, not Betas."""
        ...

    def draw(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Draws | None:
        """Samples for one step, drawn on the host; Diverged where parameters are not finite."""
        ...

    def loss(
        self, parameters: Parameters, inputs: jax.Array, batch: PairBatch, draws: Draws | None
    ) -> tuple[jax.Array, LossAux]:
        """The scalar to minimise, and auxiliary results for the training loop."""
        ...

    def draw_bias(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Any:
        """Position biases at which held-out pairs are scored, computed on the host."""
        ...

    def score(
        self, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
    ) -> jax.Array:
        """Summed log-likelihood of held-out pairs, each with its uncertainty integrated out."""
        ...

    def started(self, measure: Callable[[], float]) -> Self:
        """The objective of a run whose first batch has the log-likelihood `measure()`."""
        ...


@dataclass(frozen=True)
class EpistemicObjective:
    """Likelihood under a Beta for each relevance, and a Beta or a point for each position.

    Attributes:
        estimator: how the gradient is estimated.
        entropy: weight of the modified entropy.
        clicks: the click model.
        anchor: context whose bias is 1; None for the paper's free scale.
        samples: position biases drawn to score held-out pairs, where bias is a Beta.
        fixed: contexts whose bias stays at its initial value, where bias is a point.
        frozen: whether the parameters of all confidences stay at their initial values.
    """

    estimator: Estimator[Any]
    entropy: float
    clicks: ClickModel
    anchor: int | None
    samples: int
    fixed: tuple[int, ...] = ()
    frozen: bool = False

    @property
    def is_point(self) -> bool:
        """As for the estimator."""
        return self.estimator.is_point

    def draw(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Draws | None:
        """Samples for one step; None, without running a program, where none are needed."""
        if parameters.position.is_point:
            return None
        betas = _betas(parameters, inputs)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(betas)):
            raise Diverged(
                "nothing can be drawn from parameters that are not finite", code="training-diverged"
            )
        return self.estimator.draw(rng, *betas)

    def loss(
        self, parameters: Parameters, inputs: jax.Array, batch: PairBatch, draws: Draws | None
    ) -> tuple[jax.Array, LossAux]:
        """Negative objective, estimated log-likelihood and scale of the gradient."""
        if self.frozen:
            parameters = _with_fixed_confidence(parameters)
        relevance = Betas(
            *relevance_betas(parameters.layers, inputs, jnp, smooth=parameters.smooth)
        )
        position = self._position(parameters)
        estimate = self.estimator.estimate(relevance, position, batch, draws)
        objective = estimate.surrogate / _total(batch)
        if self.entropy:
            weight = self.entropy * jnp.exp(-estimate.log_scale)
            betas = parameters.position.betas(jnp)
            spread = None if betas is None else Betas(*betas)
            objective += weight * modified_entropy(relevance, spread, batch.weight)
        return -objective, LossAux(estimate.log_likelihood, estimate.log_scale)

    def draw_bias(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Emission:
        """Emissions (samples, contexts); one sample where bias is a point."""
        if not parameters.position.is_point:
            _, position = _betas(parameters, inputs)
            log_theta, log_rest = draw_position(rng, position, self.samples)
            return Emission(np.exp(np.maximum(log_theta, LEAST_LOG_THETA)), np.exp(log_rest))
        own = parameters.position.emission(self.clicks, self.anchor, np)
        return Emission(*(None if part is None else np.asarray(part)[None] for part in own))

    def score(
        self, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
    ) -> jax.Array:
        """Sum over pairs of the log of the mean likelihood over position biases."""
        alpha, beta = relevance_betas(parameters.layers, inputs, jnp, smooth=parameters.smooth)
        each = pair_log_likelihoods(bias, alpha, beta, batch)  # (samples, pairs)
        return (jax.nn.logsumexp(each, axis=0) - jnp.log(len(each))) @ batch.weight

    def started(self, measure: Callable[[], float]) -> Self:
        """Let the estimator measure the first batch's likelihood."""
        return replace(self, estimator=self.estimator.started(measure))

    def _position(self, parameters: Parameters) -> Betas | Emission:
        if not parameters.position.is_point:
            return Betas(*position_betas(parameters.position, jnp))
        logit = parameters.position.points.logit
        if self.fixed:
            fixed = np.isin(np.arange(len(logit)), self.fixed)
            logit = jnp.where(fixed, jax.lax.stop_gradient(logit), logit)
        return self.clicks.emission(logit, self.anchor, jnp)


@dataclass(frozen=True)
class PointwiseObjective:
    """Likelihood with a point estimate for each relevance and position: the usual PBM.

    Attributes:
        clicks: the click model.
        anchor: context whose bias is 1; None for a free scale.
    """

    clicks: ClickModel
    anchor: int | None

    @property
    def is_point(self) -> bool:
        """Always."""
        return True

    def draw(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> None:
        """Nothing is sampled."""

    def loss(
        self, parameters: Parameters, inputs: jax.Array, batch: PairBatch, draws: Draws | None
    ) -> tuple[jax.Array, LossAux]:
        """Negative mean log-likelihood per pair, and the log-likelihood."""
        total = self.score(parameters, inputs, batch, None)
        return -total / _total(batch), LossAux(total, 0.0)

    def draw_bias(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> None:
        """Nothing is sampled."""

    def score(
        self, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
    ) -> jax.Array:
        """Sum over pairs and contexts of M log(theta zeta) + W log(1 - theta zeta)."""
        zeta, rest = relevance_points(parameters.layers, inputs, jnp)
        emission = parameters.position.emission(self.clicks, self.anchor, jnp)
        return batch.weight @ known_log_likelihoods(emission, zeta, rest, batch)

    def started(self, measure: Callable[[], float]) -> Self:
        """The same objective."""
        return self


def _with_fixed_confidence(parameters: Parameters) -> Parameters:
    """The same parameters, without gradients for confidences."""
    *body, last = parameters.layers
    mean = jnp.arange(len(last[1])) == 0  # the first output; the second is the confidence
    weight, bias = (jnp.where(mean, part, jax.lax.stop_gradient(part)) for part in last)
    position = parameters.position.with_confidence(jax.lax.stop_gradient)
    return Parameters((*body, (weight, bias)), position)


def _total(batch: PairBatch) -> jax.Array:
    """Total weight of the batch's pairs; 1 where a bootstrap has drawn none of them."""
    total = batch.weight.sum()
    return jnp.where(total > 0, total, 1.0)


@jax.jit
def _betas(parameters: Parameters, inputs: jax.Array) -> tuple[Betas, Betas]:
    """Betas of the relevance of the batch's pairs, and of position bias."""
    relevance = Betas(*relevance_betas(parameters.layers, inputs, jnp, smooth=parameters.smooth))
    return relevance, Betas(*position_betas(parameters.position, jnp))

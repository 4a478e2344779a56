r"""What training maximises, per pair of the batch:

.. math:: \frac{\log \tilde{\mathcal L}}{\text{pairs}} + \lambda \bar{\mathbf H}'

as in section 5.4 of the paper, but for the division by pairs.

An objective connects a model (parameters to Betas) with an estimator (Betas and counts to a
gradient), and scores held-out pairs in the same way for all estimators. The chain rule from Betas
to parameters is written out, so that only sampled estimators compile programs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from epiclick.beta import Beta, entropy_slope
from epiclick.click_models.click_model import ClickModel, Emission
from epiclick.errors import InputError
from epiclick.estimators.estimator import LEAST_LOG_THETA, Betas, Draws, Estimator
from epiclick.fitted.parameters import BetaLookup, Parameters, PointLookup, leaves, position_betas
from epiclick.likelihood.batch_gradient import known_gradient, pair_log_likelihoods
from epiclick.likelihood.pairs import PairBatch
from epiclick.relevance.heads import betas_of, betas_slope, points_of, relevance_betas
from epiclick.relevance.network import activations, backward, last_layer

MOST_NATS = 300.0  # log of the largest factor on a gradient: its square still fits in float64


class Diverged(InputError):
    """Likelihood, gradient or parameters are no longer finite."""


class Descent(NamedTuple):
    """The log-likelihood of a batch, and where it falls.

    Attributes:
        log_likelihood: of the batch, pairs weighted.
        gradient: derivatives of minus the objective, one array for each of the parameters' leaves,
            float64.
    """

    log_likelihood: float
    gradient: list[np.ndarray]


class Objective(Protocol):
    """What the training loop needs from a model."""

    @property
    def is_point(self) -> bool:
        """Whether the click model's parameters are points during training, not Betas."""
        ...

    def draw(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Draws | None:
        """Samples for one step; Diverged where parameters are not finite."""
        ...

    def descent(
        self, parameters: Parameters, inputs: np.ndarray, batch: PairBatch, draws: Draws | None
    ) -> Descent:
        """Log-likelihood of a batch, and the gradient to follow downhill."""
        ...

    def draw_bias(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Any:
        """Position biases at which held-out pairs are scored."""
        ...

    def score(
        self, parameters: Parameters, inputs: np.ndarray, batch: PairBatch, bias: Any
    ) -> float:
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
        """Samples for one step; None, without computing anything, where none are needed."""
        if parameters.position.is_point:
            return None
        betas = _betas(parameters, inputs)
        if not all(np.isfinite(part).all() for each in betas for part in each):
            raise Diverged(
                "nothing can be drawn from parameters that are not finite", code="training-diverged"
            )
        return self.estimator.draw(rng, *betas)

    def descent(
        self, parameters: Parameters, inputs: np.ndarray, batch: PairBatch, draws: Draws | None
    ) -> Descent:
        """The chain rule from relevance and position bias to the parameters."""
        units = activations(parameters.layers[:-1], inputs)
        raw = last_layer(parameters.layers, units).astype(np.float64)
        assert raw.shape[1] == 2, "training knows Betas of two outputs: mean and confidence"
        smooth = parameters.smooth
        relevance = Betas(*betas_of(raw[:, 0], raw[:, 1], np, smooth=smooth))
        lookup = parameters.position
        position: Any = lookup.emission(self.clicks, self.anchor, np)
        if not lookup.is_point:
            position = Betas(*position_betas(lookup, np))
        found = self.estimator.gradient(relevance, position, batch, draws)

        total = _total(batch)
        by_alpha, by_beta = (part / total for part in found.by_relevance)
        by_position: Any = found.by_position
        if isinstance(by_position, Betas):
            by_position = Betas(*(part / total for part in by_position))
        else:
            by_position = by_position / total
        if self.entropy:
            weight = self.entropy * np.exp(-found.log_scale)
            more = entropy_slope(*relevance)
            share = weight * batch.weight / total
            by_alpha, by_beta = by_alpha + share * more[0], by_beta + share * more[1]
            if not lookup.is_point:
                share = weight / len(position.alpha)
                more = entropy_slope(*position)
                by_position = Betas(
                    *(own + share * each for own, each in zip(by_position, more, strict=True))
                )

        by_mean, by_confidence = betas_slope(raw[:, 0], raw[:, 1], by_alpha, by_beta, smooth=smooth)
        by_output = -np.stack([by_mean, by_confidence], axis=1)
        layers = backward(parameters.layers, units, by_output)
        if self.frozen:
            for part in layers[-1]:
                part[..., 1] = 0  # of the second output, the confidence
        lookup = self._lookup_slope(parameters, by_position)
        gradient = _as_float64(Parameters(layers, lookup))
        if found.log_scale:
            # only now: the network is differentiated in float32, where the factor could overflow
            scale = np.exp(min(found.log_scale, MOST_NATS))
            gradient = [scale * leaf for leaf in gradient]
        return Descent(found.log_likelihood, gradient)

    def _lookup_slope(self, parameters: Parameters, by_position: Any) -> BetaLookup | PointLookup:
        """Derivatives in the lookup, from those in Betas or in the emission's logits."""
        lookup = parameters.position
        if isinstance(lookup, PointLookup):
            logit = np.asarray(lookup.logit)
            slope = -(self.clicks.logit_jacobian(logit, self.anchor).T @ by_position)
            slope[list(self.fixed)] = 0
            return PointLookup(slope)
        by_mean, by_confidence = betas_slope(*lookup, *by_position, smooth=False)
        if self.frozen:
            by_confidence = np.zeros_like(by_confidence)
        return BetaLookup(-by_mean, -by_confidence)

    def draw_bias(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> Emission:
        """Emissions (samples, contexts); one sample where bias is a point."""
        lookup = parameters.position
        if not lookup.is_point:
            log_theta, log_rest = Beta(*position_betas(lookup, np)).sample_logs(rng, self.samples)
            return Emission(np.exp(np.maximum(log_theta, LEAST_LOG_THETA)), np.exp(log_rest))
        own = lookup.emission(self.clicks, self.anchor, np)
        return Emission(*(None if part is None else np.asarray(part)[None] for part in own))

    def score(
        self, parameters: Parameters, inputs: np.ndarray, batch: PairBatch, bias: Any
    ) -> float:
        """Sum over pairs of the log of the mean likelihood over position biases."""
        units = activations(parameters.layers[:-1], inputs)
        raw = last_layer(parameters.layers, units).astype(np.float64)
        alpha, beta = betas_of(raw[:, 0], raw[:, 1], np, smooth=parameters.smooth)
        each = pair_log_likelihoods(bias, alpha, beta, batch)  # (samples, pairs)
        top = each.max(axis=0)
        return float((top + np.log(np.exp(each - top).mean(axis=0))) @ batch.weight)

    def started(self, measure: Callable[[], float]) -> Self:
        """Let the estimator measure the first batch's likelihood."""
        return replace(self, estimator=self.estimator.started(measure))


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

    def descent(
        self, parameters: Parameters, inputs: np.ndarray, batch: PairBatch, draws: Draws | None
    ) -> Descent:
        """The chain rule from relevance and position bias to the parameters."""
        units = activations(parameters.layers[:-1], inputs)
        raw = last_layer(parameters.layers, units).astype(np.float64)
        assert raw.shape[1] == 1
        logit = np.asarray(parameters.position.points.logit)
        emission = self.clicks.emission(logit, self.anchor, np)
        found = known_gradient(emission, *points_of(raw[:, 0], np), batch)
        total = _total(batch)
        by_output = -(batch.weight / total * found.by_logit_relevance)[:, None]
        layers = backward(parameters.layers, units, by_output)
        jacobian = self.clicks.logit_jacobian(logit, self.anchor)
        lookup = PointLookup(-(jacobian.T @ found.by_logit) / total)
        value = float(batch.weight @ found.value)
        return Descent(value, _as_float64(Parameters(layers, lookup)))

    def draw_bias(self, rng: np.random.Generator, parameters: Parameters, inputs: Any) -> None:
        """Nothing is sampled."""

    def score(
        self, parameters: Parameters, inputs: np.ndarray, batch: PairBatch, bias: Any
    ) -> float:
        """Sum over pairs and contexts of M log(theta zeta) + W log(1 - theta zeta)."""
        units = activations(parameters.layers[:-1], inputs)
        raw = last_layer(parameters.layers, units).astype(np.float64)
        emission = parameters.position.emission(self.clicks, self.anchor, np)
        return float(
            batch.weight @ known_gradient(emission, *points_of(raw[:, 0], np), batch).value
        )

    def started(self, measure: Callable[[], float]) -> Self:
        """The same objective."""
        return self


def _betas(parameters: Parameters, inputs: np.ndarray) -> tuple[Betas, Betas]:
    """Betas of the relevance of the batch's pairs, and of position bias."""
    relevance = relevance_betas(parameters.layers, inputs, np, smooth=parameters.smooth)
    return Betas(*relevance), Betas(*position_betas(parameters.position, np))


def _total(batch: PairBatch) -> float:
    """Total weight of the whole batch's pairs; 1 where a bootstrap has drawn none of them."""
    return float(batch.weight.sum() if batch.whole is None else batch.whole) or 1.0


def _as_float64(gradient: Parameters) -> list[np.ndarray]:
    return [leaf.astype(np.float64, copy=False) for leaf in leaves(gradient)]

"""Trained parameters as plain arrays, their posterior, and draws from it. No jax.

Points and Betas have the same methods, so that other modules need not distinguish them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from epiclick.click_models.click_model import ClickModel, Emission
from epiclick.relevance.heads import betas_of
from epiclick.relevance.network import Layers

if TYPE_CHECKING:
    from epiclick.fitted.state import FittedModel

START_CONFIDENCE = 0.1
"""Initial raw confidence: away from 0, where |x| + 1 has no gradient, and nu near 1 as in the
paper."""


class PointLookup(NamedTuple):
    """Point estimates of the click model's parameters, (contexts,): for the PBM, bias in logits.

    The anchor's is not used.
    """

    logit: Any

    @property
    def is_point(self) -> bool:
        """Whether parameters are points, not Betas."""
        return True

    @property
    def points(self) -> "PointLookup":
        """The lookup itself."""
        return self

    def betas(self, xp: ModuleType) -> tuple[Any, Any] | None:
        """None: points have no Betas."""
        return None

    def emission(self, clicks: ClickModel, anchor: int | None, xp: ModuleType) -> Emission:
        """The emission in each context, (contexts,) float64 each."""
        return clicks.emission(self.logit, anchor, xp)

    def drawn(self, rng: np.random.Generator, count: int) -> Sequence["PointLookup"]:
        """The lookup itself: there is nothing to draw."""
        return [self]

    def with_confidence(self, change: Callable[[Any], Any]) -> "PointLookup":
        """The lookup itself: points have no confidence."""
        return self


class BetaLookup(NamedTuple):
    """One Beta per context: mean in logits and raw confidence, (contexts,) each."""

    mean_logit: Any
    confidence: Any

    @property
    def is_point(self) -> bool:
        """Whether parameters are points, not Betas."""
        return False

    @property
    def points(self) -> PointLookup:
        """TypeError: code that needs points cannot use Betas."""
        raise TypeError("Betas of the click model's parameters where points are needed")

    def betas(self, xp: ModuleType) -> tuple[Any, Any] | None:
        """alpha and beta, each (contexts,) float64."""
        return betas_of(self.mean_logit, self.confidence, xp, smooth=False)

    def emission(self, clicks: ClickModel, anchor: int | None, xp: ModuleType) -> Emission:
        """The expected emission in each context, (contexts,) float64 each."""
        alpha, beta = betas_of(self.mean_logit, self.confidence, xp, smooth=False)
        return Emission(alpha / (alpha + beta), beta / (alpha + beta))

    def drawn(self, rng: np.random.Generator, count: int) -> Sequence[PointLookup]:
        """Independent draws from the Betas."""
        from epiclick.beta import Beta  # loading models of points must not need its scipy

        alpha, beta = betas_of(self.mean_logit, self.confidence, np, smooth=False)
        log_theta, log_rest = Beta(alpha, beta).sample_logs(rng, count)
        return [PointLookup(logit) for logit in log_theta - log_rest]

    def with_confidence(self, change: Callable[[Any], Any]) -> "BetaLookup":
        """The same with its raw confidence changed."""
        return self._replace(confidence=change(self.confidence))


Lookup: TypeAlias = BetaLookup | PointLookup
LOOKUPS: tuple[type[Lookup], ...] = (PointLookup, BetaLookup)


def init_betas(contexts: int) -> BetaLookup:
    """Initial Betas, as in the paper: mean 1/2 and confidence near 1."""
    return BetaLookup(np.zeros(contexts), np.full(contexts, START_CONFIDENCE))


class DrawnLayer(tuple[np.ndarray, np.ndarray]):
    """Weight and bias of a last layer that was drawn from a Gaussian.

    Attributes:
        centre: of the Gaussian, on which the scale of confidences depends; see `scaled_confidence`.
    """

    centre: tuple[np.ndarray, np.ndarray]

    @classmethod
    def around(
        cls, centre: tuple[np.ndarray, np.ndarray], drawn: tuple[np.ndarray, np.ndarray]
    ) -> "DrawnLayer":
        """A draw that knows its centre."""
        layer = cls(drawn)
        layer.centre = centre
        return layer


class Parameters(NamedTuple):
    """Relevance network and click model's lookup, as numpy arrays.

    Attributes:
        layers: the network of relevance.
        position: parameters of the click model.
        satisfaction: the network of satisfaction, for click models with that channel; else empty.
    """

    layers: Layers
    position: Lookup
    satisfaction: Layers = ()

    @property
    def smooth(self) -> bool:
        """Whether the confidence of relevance is smooth; see `relevance.heads`."""
        return self.position.is_point


def leaves(parameters: Parameters) -> list[np.ndarray]:
    """All arrays: weight and bias of each layer, the lookup, then layers of satisfaction."""
    first, other = (
        [part for layer in layers for part in layer]
        for layers in (parameters.layers, parameters.satisfaction)
    )
    return [*first, *parameters.position, *other]


def with_leaves(parameters: Parameters, arrays: Sequence[np.ndarray]) -> Parameters:
    """Parameters of the same form with other arrays; the inverse of `leaves`."""
    count = 2 * len(parameters.layers)
    end = count + len(parameters.position)
    layers, other = (
        tuple(zip(part[::2], part[1::2], strict=True)) for part in (arrays[:count], arrays[end:])
    )
    return Parameters(layers, type(parameters.position)(*arrays[count:end]), other)


def position_betas(lookup: Lookup, xp: ModuleType) -> tuple[Any, Any]:
    """alpha and beta, each (contexts,) float64, of a lookup that has Betas."""
    betas = lookup.betas(xp)
    assert betas is not None
    return betas


LOOKUP_OF: Mapping[str, type[Lookup]] = {
    f"position.{name}": lookup for lookup in LOOKUPS for name in lookup._fields
}
"""The class of lookup that an array in a file belongs to."""


def to_arrays(parameters: Parameters) -> dict[str, np.ndarray]:
    """The parameters' arrays under the names they have in files."""
    networks = {"relevance": parameters.layers, "satisfaction": parameters.satisfaction}
    arrays = {
        f"{network}.{i}.{name}": np.asarray(value)
        for network, layers in networks.items()
        for i, layer in enumerate(layers)
        for name, value in zip(("weight", "bias"), layer, strict=True)
    }
    lookup = parameters.position._asdict()
    return arrays | {f"position.{name}": np.asarray(value) for name, value in lookup.items()}


def from_arrays(arrays: dict[str, np.ndarray]) -> Parameters:
    """The inverse of `to_arrays`; KeyError where an array is missing."""
    layers, satisfaction = (
        tuple(
            (arrays[f"{network}.{i}.weight"], arrays[f"{network}.{i}.bias"])
            for i in range(sum(name.startswith(f"{network}.") for name in arrays) // 2)
        )
        for network in ("relevance", "satisfaction")
    )
    first = next((name for name in LOOKUP_OF if name in arrays), "position.mean_logit")
    lookup = LOOKUP_OF[first]
    position = lookup(*(arrays[f"position.{name}"] for name in lookup._fields))
    return Parameters(layers, position, satisfaction)


DRAWS = 16
"""Draws of the parameters that predictions are averaged over; antithetic, to preserve means."""

RIDGE = 1e-9

POSTERIOR_ARRAYS = ("mean", "bayes", "robust")
MORE_POSTERIOR_ARRAYS = ("samples", "ridge")

POWERS = (1, 2, 3)
"""Powers of a polynomial through 0 that describes a curved posterior."""

CURVED = 3.0
"""Standard deviations up to which it does; further out draws keep the bend they have there."""
"""Names of the arrays that every `ParameterPosterior` has."""


@dataclass(frozen=True, eq=False)
class ParameterPosterior:
    """Posterior of the click model's parameters and the network's last layer, given its body.

    The vector of parameters contains the free parameters of the click model (for the PBM the logits
    of position bias of all contexts but the anchor), then the last layer's weights (row by row) and
    biases, and the same of the network of satisfaction, if there is one.

    Attributes:
        mean: (size,) expected parameters, those the model predicts with.
        bayes: (size, size) covariance if clicks follow the model, from the curvature at the mode.
        robust: (size, size) covariance from the differences between queries, or other clusters,
            valid even if clicks do not follow the model.
        pareto_k: Pareto shape of the importance weights of position bias drawn from the Gaussian;
            above 0.7 the Gaussian is a poor approximation. None if nothing was drawn.
        gradient: gradient of the log density at the reported mode, as its distance from the true
            mode in standard deviations.
        samples: (samples, size) draws of the posterior by Markov chains, if requested.
        hyperparameters: learned hyperparameters of the click model's prior; empty if it has none.
        ridge: (powers, size) how draws bend where the posterior is curved (`posterior.ridge`): the
            coefficients of `POWERS` of the floor's deviation, in standard deviations of `bayes`.
            Then `mean` is a point on the curve. None where it is straight.
    """

    mean: np.ndarray
    bayes: np.ndarray
    robust: np.ndarray
    pareto_k: float | None
    gradient: float
    samples: np.ndarray | None = None
    hyperparameters: Mapping[str, float] = field(default_factory=dict)
    ridge: np.ndarray | None = None

    def widened(self, by: np.ndarray) -> "ParameterPosterior":
        """The same with standard deviations times a factor of each parameter, (size,)."""
        samples = self.samples
        if samples is not None:
            samples = self.mean + by * (samples - self.mean)
        bayes, robust = (by[:, None] * each * by for each in (self.bayes, self.robust))
        return replace(self, bayes=bayes, robust=robust, samples=samples)

    def samples_of(self, covariance: str) -> np.ndarray | None:
        """The draws by Markov chains, which assume that clicks follow the model, like "bayes"."""
        return self.samples if covariance == "bayes" else None


def to_vector(parameters: Parameters, clicks: ClickModel, anchor: int | None) -> np.ndarray:
    """Free parameters and last layer as a float64 vector; see `ParameterPosterior`."""
    logit = np.asarray(parameters.position.points.logit, np.float64)
    last = [layers[-1] for layers in (parameters.layers, parameters.satisfaction) if layers]
    flat = [np.asarray(part, np.float64).ravel() for layer in last for part in layer]
    return np.concatenate([logit[_free(clicks, len(logit), anchor)], *flat])


def _free(clicks: ClickModel, size: int, anchor: int | None) -> np.ndarray:
    """Indices of the learned ones among all parameters of a click model, of this number."""
    contexts = next(count for count in range(size + 1) if clicks.size(count) == size)
    return clicks.free(contexts, anchor)


def from_vector(
    parameters: Parameters, clicks: ClickModel, anchor: int | None, vector: np.ndarray
) -> Parameters:
    """The parameters with those in the vector replaced; the inverse of `to_vector`."""
    logit = np.array(parameters.position.points.logit, np.float64)
    free = _free(clicks, len(logit), anchor)
    logit[free] = vector[: len(free)]
    networks, start = [], len(free)
    for layers in (parameters.layers, parameters.satisfaction):
        if not layers:
            networks.append(layers)
            continue
        weight, bias = layers[-1]
        stop = start + np.size(weight) + np.size(bias)
        layer = vector[start:stop].reshape(-1, len(bias))
        networks.append((*layers[:-1], (layer[:-1], layer[-1])))
        start = stop
    assert start == len(vector)
    return Parameters(networks[0], PointLookup(logit), networks[1])


def floor_parameter(clicks: ClickModel, contexts: int, anchor: int | None) -> int | None:
    """Index among the free parameters of that of B at the anchor, along which others follow.

    None if only attractive items are clicked, or if there is no anchor. Parameters of an affine
    model are one for each context and kind: those of A, then those of B.
    """
    if not clicks.is_affine or anchor is None:
        return None
    (found,) = np.flatnonzero(clicks.free(contexts, anchor) == contexts + anchor)
    return int(found)


def bent(
    posterior: ParameterPosterior,
    draws: np.ndarray,
    clicks: ClickModel,
    contexts: int,
    anchor: int | None,
) -> np.ndarray:
    """Draws of the Gaussian moved onto the curve that the posterior follows, if it does.

    Args:
        posterior: of the parameters.
        draws: (draws, size) all parameters, or the first of them.
        clicks: the click model.
        contexts: number of contexts.
        anchor: context at which relevance is measured.
    """
    floor = floor_parameter(clicks, contexts, anchor)
    if posterior.ridge is None or floor is None:
        return draws
    size = draws.shape[1]
    spread = posterior.bayes[:size, :size]
    sd = np.sqrt(spread[floor, floor])
    response = spread[:, floor] / sd
    z = (draws[:, floor] - posterior.mean[floor]) / sd
    powers = np.clip(z, -CURVED, CURVED)[:, None] ** np.array(POWERS)
    along = posterior.mean[:size] + z[:, None] * response + powers @ posterior.ridge[:, :size]
    across = draws - posterior.mean[:size] - z[:, None] * response
    found = along + across
    free = clicks.free(contexts, anchor)
    own, every = slice(0, len(free)), clicks.size(contexts)
    start, moves = np.zeros((2, len(draws), every))
    covariance = np.zeros((every, every))
    start[:, free], moves[:, free] = along[:, own], across[:, own]
    covariance[np.ix_(free, free)] = (spread - np.outer(response, response))[own, own]
    found[:, own] = clicks.moved(start, moves, covariance)[:, free]
    return found


def mirrored_draws(
    mode: np.ndarray, covariance: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """(count, size) draws of a Gaussian, the second half mirroring the first at the mode."""
    # unlike eigenvectors, a Cholesky factor is stable under small changes of the covariance; the
    # ridge admits directions without variance
    factor = np.linalg.cholesky(covariance + np.diag(RIDGE * (np.diag(covariance) + RIDGE)))
    moved = rng.standard_normal((-(-count // 2), len(mode))) @ factor.T
    return mode + np.concatenate([moved, -moved])[:count]


def parameter_draws(
    fitted: "FittedModel", count: int = DRAWS, *, kind: str = "robust", seed: int = 0
) -> Sequence[Parameters]:
    """Parameters that predictions are averaged over; only members can have Betas of position bias.

    The members of an ensemble, whatever `count`; or draws from the posterior; or, where position
    bias is a Beta, draws from it; else the parameters themselves. Networks with the same body share
    its arrays, not copies.

    Args:
        fitted: the model.
        count: number of draws.
        kind: covariance of the posterior, "robust" or "bayes".
        seed: of the draws; fixed, so that all predictions of a model use the same ones.
    """
    if fitted.members:
        return fitted.members
    own, posterior = fitted.parameters, fitted.posterior
    rng = np.random.default_rng([seed, 4])
    if posterior is None and own.position.is_point:
        return [own]
    if posterior is None:
        return [own._replace(position=drawn) for drawn in own.position.drawn(rng, count)]
    samples = posterior.samples_of(kind)
    if samples is not None:
        vectors = samples[rng.integers(len(samples), size=count)]
        return [from_vector(own, fitted.clicks, fitted.anchor, vector) for vector in vectors]
    vectors = mirrored_draws(posterior.mean, getattr(posterior, kind), count, rng)
    vectors = bent(posterior, vectors, fitted.clicks, len(fitted.contexts), fitted.anchor)
    return [
        _around(own, from_vector(own, fitted.clicks, fitted.anchor, vector)) for vector in vectors
    ]


def _around(centre: Parameters, drawn: Parameters) -> Parameters:
    """A draw whose last layers know those at the centre."""
    networks = (
        (*layers[:-1], DrawnLayer.around(own[-1], layers[-1])) if layers else layers
        for own, layers in zip(centre[::2], drawn[::2], strict=True)
    )
    return Parameters(next(networks), drawn.position, next(networks))


def without_uncertainty(fitted: "FittedModel") -> "FittedModel":
    """The model with its parameters taken as known."""
    return replace(fitted, posterior=None, members=())

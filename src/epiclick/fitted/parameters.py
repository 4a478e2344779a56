"""What training learns, as plain arrays, and how sure a model is of it. No jax.

Both kinds answer the same questions, so that nothing else needs to know which one a model has.
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
"""First raw confidence: |x| + 1 has no gradient at 0; so nu starts near 1, as in the paper."""


class PointLookup(NamedTuple):
    """Parameters of the click model, (contexts,): for the PBM position bias in logits.

    That of the anchor is not used.
    """

    logit: Any

    @property
    def is_point(self) -> bool:
        """Whether there is no more than one value for each context."""
        return True

    @property
    def points(self) -> "PointLookup":
        """Itself."""
        return self

    def betas(self, xp: ModuleType) -> tuple[Any, Any] | None:
        """None: points have no Betas."""
        return None

    def emission(self, clicks: ClickModel, anchor: int | None, xp: ModuleType) -> Emission:
        """The emission in each context, (contexts,) float64 each."""
        return clicks.emission(self.logit, anchor, xp)

    def drawn(self, rng: np.random.Generator, count: int) -> Sequence["PointLookup"]:
        """Itself alone: there is nothing to draw."""
        return [self]

    def with_confidence(self, change: Callable[[Any], Any]) -> "PointLookup":
        """Itself: points have no confidence to change."""
        return self


class BetaLookup(NamedTuple):
    """Parameters of one Beta per context: mean in logits and raw confidence, (contexts,) each."""

    mean_logit: Any
    confidence: Any

    @property
    def is_point(self) -> bool:
        """Whether there is no more than one value for each context."""
        return False

    @property
    def points(self) -> PointLookup:
        """TypeError: what asks for points must not be given Betas."""
        raise TypeError("Betas of the click model's parameters where points are needed")

    def betas(self, xp: ModuleType) -> tuple[Any, Any] | None:
        """alpha and beta, each (contexts,) float64."""
        return betas_of(self.mean_logit, self.confidence, xp, smooth=False)

    def emission(self, clicks: ClickModel, anchor: int | None, xp: ModuleType) -> Emission:
        """The expected emission in each context, (contexts,) float64 each."""
        alpha, beta = betas_of(self.mean_logit, self.confidence, xp, smooth=False)
        return Emission(alpha / (alpha + beta), beta / (alpha + beta))

    def drawn(self, rng: np.random.Generator, count: int) -> Sequence[PointLookup]:
        """Draws from the Betas, independent of each other."""
        from epiclick.beta import Beta  # whose scipy models of points need not load

        alpha, beta = betas_of(self.mean_logit, self.confidence, np, smooth=False)
        log_theta, log_rest = Beta(alpha, beta).sample_logs(rng, count)
        return [PointLookup(logit) for logit in log_theta - log_rest]

    def with_confidence(self, change: Callable[[Any], Any]) -> "BetaLookup":
        """The same with its raw confidence changed."""
        return self._replace(confidence=change(self.confidence))


Lookup: TypeAlias = BetaLookup | PointLookup
LOOKUPS: tuple[type[Lookup], ...] = (PointLookup, BetaLookup)


def init_betas(contexts: int) -> BetaLookup:
    """Betas of mean 1/2 and confidence near 1, as the paper starts."""
    return BetaLookup(np.zeros(contexts), np.full(contexts, START_CONFIDENCE))


def position_betas(lookup: Lookup, xp: ModuleType) -> tuple[Any, Any]:
    """alpha and beta, each (contexts,) float64, of a lookup that has Betas."""
    betas = lookup.betas(xp)
    assert betas is not None
    return betas


class Parameters(NamedTuple):
    """Relevance network and position lookup; a pytree for jax, numpy arrays when stored."""

    layers: Layers
    position: Lookup

    @property
    def smooth(self) -> bool:
        """Whether the confidence of relevance is smooth; see `relevance.heads`."""
        return self.position.is_point


LOOKUP_OF: Mapping[str, type[Lookup]] = {
    f"position.{name}": lookup for lookup in LOOKUPS for name in lookup._fields
}
"""The lookup that an array in a file belongs to."""


def to_arrays(parameters: Parameters) -> dict[str, np.ndarray]:
    """The parameters under names that a file can hold."""
    arrays = {
        f"relevance.{i}.{name}": np.asarray(value)
        for i, layer in enumerate(parameters.layers)
        for name, value in zip(("weight", "bias"), layer, strict=True)
    }
    lookup = parameters.position._asdict()
    return arrays | {f"position.{name}": np.asarray(value) for name, value in lookup.items()}


def from_arrays(arrays: dict[str, np.ndarray]) -> Parameters:
    """The parameters that `to_arrays` named; KeyError where one is missing."""
    depth = sum(name.startswith("relevance.") for name in arrays) // 2
    layers = tuple(
        (arrays[f"relevance.{i}.weight"], arrays[f"relevance.{i}.bias"]) for i in range(depth)
    )
    first = next((name for name in LOOKUP_OF if name in arrays), "position.mean_logit")
    lookup = LOOKUP_OF[first]
    return Parameters(layers, lookup(*(arrays[f"position.{name}"] for name in lookup._fields)))


DRAWS = 16
"""Parameters drawn to average answers over; in pairs mirrored at the mode, so means stay put."""


RIDGE = 1e-9


POSTERIOR_ARRAYS = ("mean", "bayes", "robust")
"""The arrays that every `ParameterPosterior` has, as they are stored."""


@dataclass(frozen=True, eq=False)
class ParameterPosterior:
    """What clicks tell of position bias and the network's last layer, the body being fixed.

    The vector of parameters holds the free parameters of the click model (for the PBM the logits of
    position bias of all contexts but the anchor), then the last layer's weights (row by row) and
    biases.

    Attributes:
        mean: (size,) expected parameters, those the model predicts with.
        bayes: (size, size) covariance if clicks follow the model, from the curvature at the mode.
        robust: (size, size) covariance from the differences between queries, whether they do or
            not.
        pareto_k: shape of the tail of the importance weights of position bias drawn from the
            Gaussian; above 0.7 it is no good description of the posterior. None where nothing was
            drawn.
        gradient: how steep the log density is where its mode was found, as standard deviations that
            the mode is still away.
        samples: (samples, size) draws of the posterior by Markov chains, if they were asked for.
        hyperparameters: of the click model's prior, as they were learned; none where it has none.
    """

    mean: np.ndarray
    bayes: np.ndarray
    robust: np.ndarray
    pareto_k: float | None
    gradient: float
    samples: np.ndarray | None = None
    hyperparameters: Mapping[str, float] = field(default_factory=dict)

    def samples_of(self, covariance: str) -> np.ndarray | None:
        """The draws by Markov chains, which take clicks to follow the model, as "bayes" does."""
        return self.samples if covariance == "bayes" else None


def to_vector(parameters: Parameters, clicks: ClickModel, anchor: int | None) -> np.ndarray:
    """Position bias and last layer as one vector of float64; see `ParameterPosterior`."""
    logit = np.asarray(parameters.position.points.logit, np.float64)
    weight, bias = (np.asarray(part, np.float64) for part in parameters.layers[-1])
    return np.concatenate([logit[clicks.free(len(logit), anchor)], weight.ravel(), bias])


def from_vector(
    parameters: Parameters, clicks: ClickModel, anchor: int | None, vector: np.ndarray
) -> Parameters:
    """The parameters with position bias and last layer replaced by those of the vector."""
    logit = np.array(parameters.position.points.logit, np.float64)
    free = clicks.free(len(logit), anchor)
    logit[free] = vector[: len(free)]
    outputs = len(parameters.layers[-1][1])
    layer = vector[len(free) :].reshape(-1, outputs)
    return Parameters((*parameters.layers[:-1], (layer[:-1], layer[-1])), PointLookup(logit))


def mirrored_draws(
    mode: np.ndarray, covariance: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """(count, size) draws of a Gaussian, the second half mirroring the first at the mode."""
    # unlike eigenvectors, a triangular factor hardly moves when the covariance hardly does; where a
    # direction is certain, or was rounded to be, a little is added
    factor = np.linalg.cholesky(covariance + np.diag(RIDGE * (np.diag(covariance) + RIDGE)))
    moved = rng.standard_normal((-(-count // 2), len(mode))) @ factor.T
    return mode + np.concatenate([moved, -moved])[:count]


def parameter_draws(
    fitted: "FittedModel", count: int = DRAWS, *, kind: str = "robust", seed: int = 0
) -> Sequence[Parameters]:
    """Parameters that answers are averaged over; position bias is a point in all but members.

    The members of an ensemble, whatever `count`; or draws from the posterior; or, where position
    bias is a Beta, draws from it; else the parameters themselves. Networks that share their body
    share its very arrays.

    Args:
        fitted: the model.
        count: number of draws.
        kind: "robust" or "bayes": which covariance of the posterior.
        seed: of the draws, so that all answers of a model rest on the same ones.
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
    if samples is None:
        vectors = mirrored_draws(posterior.mean, getattr(posterior, kind), count, rng)
    else:
        vectors = samples[rng.integers(len(samples), size=count)]
    return [from_vector(own, fitted.clicks, fitted.anchor, vector) for vector in vectors]


def without_uncertainty(fitted: "FittedModel") -> "FittedModel":
    """The model as if its parameters were known."""
    return replace(fitted, posterior=None, members=())

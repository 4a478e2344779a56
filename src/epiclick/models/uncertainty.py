"""How sure a model is of its own parameters: a Gaussian around them, or an ensemble. No jax."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from epiclick.click_models.base import ClickModel
from epiclick.models.parameters import Parameters
from epiclick.models.position import PointLookup

if TYPE_CHECKING:
    from epiclick.models.fitted import FittedModel

DRAWS = 16
"""Parameters drawn to average answers over; in pairs mirrored at the mode, so means stay put."""


RIDGE = 1e-9


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

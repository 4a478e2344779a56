r"""The posterior of position bias and the last layer: a Gaussian around their mean.

`bayes` is minus the inverse of the Hessian of the log density (Laplace's approximation). It trusts
the model: every click an independent draw from a Beta-binomial. Real clicks vary more than that, so
`robust` takes their variation from the differences between queries (the sandwich): with g_q the
gradient of query q's log-likelihood, H minus the Hessian and P the prior's part of it,

.. math:: H^{-1} (G + P) H^{-1}, \qquad
          G = \frac{1}{Q + n} \Big( Q \frac{Q}{Q - p} \sum_q g_q g_q^\top + n (H - P) \Big),
          \qquad p = \operatorname{tr}\big((H - P) H^{-1}\big),

where Q counts queries, p the parameters that the clicks decide, and the model itself speaks for n
queries, as a few of them show little of how they differ. Where the model holds, both agree; where
there are no clicks, both are the prior.
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from epiclick.click_models.base import ClickModel
from epiclick.models.kinds import ThetaPosterior
from epiclick.models.parameters import Parameters
from epiclick.models.uncertainty import ParameterPosterior, from_vector, to_vector
from epiclick.posterior.density import Density, Emitter, mean_square_inputs
from epiclick.posterior.mean import bias_directions, posterior_mean
from epiclick.posterior.mode import Mode, find_mode, inverse
from epiclick.posterior.pareto import pareto_k
from epiclick.posterior.prior import Prior, layer_spread
from epiclick.training.pairset import PairSet

DRAWS = 100
"""Draws whose importance weights are looked at."""

MOST_ROUNDS = 6
"""Times that the hyperparameters of a prior are learned, each from a mode under the last ones."""

SETTLED = 0.05
"""Standard deviations by which a parameter may still move, on average, in the next round."""

WORTH_OF_MODEL = 5
"""Queries that the model's own spread counts for beside the differences between queries."""

MOST_FOR_TAIL = 20_000
"""Pairs up to which the weights are looked at; with more the posterior is a Gaussian anyway."""


class KnownBias(NamedTuple):
    """Position bias known from elsewhere, in logits: (contexts,) each, NaN where it is not."""

    mean: np.ndarray
    sd: np.ndarray


def make_density(
    pairs: PairSet,
    parameters: Parameters,
    clicks: ClickModel,
    anchor: int | None,
    known: KnownBias | None = None,
) -> Density:
    """The log density that a fit leaves open, of the click model's parameters and last layer."""
    contexts = pairs.batches.counts.contexts
    free = clicks.free(len(contexts), anchor)
    assumed = clicks.prior(contexts, anchor)
    if known is not None:
        assumed = assumed.given(known.mean[free], known.sd[free])
    prior = Prior(assumed, np.ones(0))
    width = len(parameters.layers[-1][0])
    body = parameters.layers[:-1]
    density = Density(pairs, body, Emitter(clicks, len(contexts), anchor), prior, width)
    spread = layer_spread(mean_square_inputs(density))
    return replace(density, prior=replace(prior, layer_sd=spread))


def find_posterior(
    pairs: PairSet,
    parameters: Parameters,
    clicks: ClickModel,
    anchor: int | None,
    how: ThetaPosterior = "laplace",
    known: KnownBias | None = None,
    seed: int = 0,
    progress: bool = True,
) -> tuple[Parameters, ParameterPosterior]:
    """Parameters at the mean of the posterior, found from the given ones, and the posterior.

    Args:
        pairs: clicks and inputs of all pairs.
        parameters: trained ones; their body is kept.
        clicks: the click model.
        anchor: the context whose bias is 1, or None.
        how: "laplace", or "nuts" for samples of the same density by Markov chains beside it.
        known: position bias known from elsewhere.
        seed: of all draws.
        progress: show a progress bar of the chains, on a terminal.
    """
    with jax.enable_x64(True):
        density = make_density(pairs, parameters, clicks, anchor, known)
        density, mode = _highest(density, to_vector(parameters, clicks, anchor), seed)
        bayes, robust = covariances(mode, density.prior)
        mean = posterior_mean(density, mode.vector, bayes, seed)
        posterior = ParameterPosterior(
            mean=mean,
            bayes=bayes,
            robust=robust,
            pareto_k=_tail(density, mean, bayes, seed)
            if len(pairs.batches.counts) <= MOST_FOR_TAIL
            else None,
            gradient=float(np.sqrt(mode.gradient @ bayes @ mode.gradient)),
            hyperparameters=density.prior.clicks.hyperparameters(),
        )
        if how == "nuts":
            from epiclick.posterior.nuts import sample

            drawn = sample(density, mode.vector, bayes, seed, progress=progress)
            posterior = replace(posterior, samples=drawn)
    return from_vector(parameters, clicks, anchor, mean), posterior


def _highest(density: Density, start: np.ndarray, seed: int) -> tuple[Density, Mode]:
    """The mode, and the density with the hyperparameters of its prior learned on the way."""
    mode = find_mode(density, start, seed)
    for _ in range(MOST_ROUNDS):
        prior = density.prior.learned(mode.vector, mode.curvature.hessian)
        if prior is density.prior:
            break
        density = replace(density, prior=prior)
        before, mode = mode, find_mode(density, mode.vector, seed)
        moved = mode.vector - before.vector
        if moved @ -mode.curvature.hessian @ moved < SETTLED**2 * len(moved):
            break
    return density, mode


def covariances(mode: Mode, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """`bayes` and `robust`, each (size, size)."""
    hessian, scores = mode.curvature.hessian, mode.curvature.scores
    assumed = -prior.hessian(mode.vector)  # precision
    bayes = inverse(-hessian, prior.held)
    by_model = -hessian - assumed
    queries = np.sum(np.any(scores != 0, axis=1))
    factor = queries / max(queries - np.trace(by_model @ bayes), 1.0)
    by_queries = factor * scores.T @ scores
    spread = (queries * by_queries + WORTH_OF_MODEL * by_model) / (queries + WORTH_OF_MODEL)
    return bayes, bayes @ (spread + assumed) @ bayes


def _tail(density: Density, mean: np.ndarray, covariance: np.ndarray, seed: int) -> float | None:
    """Pareto's k of the importance weights of position bias drawn from the Gaussian.

    The last layer follows each draw as the Gaussian says. Drawn as well, its hundreds of parameters
    would each add a little to the spread of the weights, and k would be large even where all that
    depends on them is known well.
    """
    along = bias_directions(density, covariance)
    if not len(along):
        return None
    noise = np.random.default_rng([seed, 5]).standard_normal((DRAWS, len(along)))
    log_weights = density.change(mean, mean + noise @ along)
    return pareto_k(log_weights + 0.5 * np.square(noise).sum(axis=1))

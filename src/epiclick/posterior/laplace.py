r"""The posterior of the click model's parameters and the last layer: a Gaussian around their mean.

`bayes` is minus the inverse of the Hessian of the log density (Laplace's approximation). It assumes
the model is right: every click an independent draw from a Beta-binomial. Real clicks are
overdispersed, so `robust` takes their variance from the differences between queries (the sandwich
estimator): with g_q the gradient of query q's log-likelihood, H minus the Hessian and P the prior's
part of it,

.. math:: H^{-1} (G + P) H^{-1}, \qquad
          G = \frac{1}{Q + n} \Big( Q \frac{Q}{Q - p} \sum_q g_q g_q^\top + n (H - P) \Big),
          \qquad p = \operatorname{tr}\big((H - P) H^{-1}\big),

where Q is the number of queries, p the effective number of parameters, and the model's own
variance counts as n queries, since a few queries say little about how queries differ. If the model
is right, both agree; without clicks, both are the prior. Where the counts have other clusters, such
as users, G is the variance between groups of them (`cluster_scores`).
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from epiclick.arguments import ThetaPosterior, require_extra
from epiclick.batching.pairset import Inputs, PairSet
from epiclick.click_models.click_model import ClickModel
from epiclick.fitted.parameters import (
    ParameterPosterior,
    Parameters,
    floor_parameter,
    from_vector,
    to_vector,
)
from epiclick.identification.bias_estimate import BiasEstimate
from epiclick.posterior.bias_influence import bias_influence
from epiclick.posterior.cluster_scores import between_groups, cluster_scores
from epiclick.posterior.density import Density, Emitter, mean_square_inputs
from epiclick.posterior.joint_prior import Prior, layer_spread, slopes_in
from epiclick.posterior.mode import (
    Mode,
    bias_directions,
    find_mode,
    inverse,
    posterior_mean,
    settled,
)
from epiclick.posterior.ridge import bend


def pareto_k(log_weights: np.ndarray) -> float:
    r"""Shape k of the generalised Pareto distribution of the largest weights.

    Below 0.5 the weights have a finite variance; above 0.7 no practical number of draws corrects
    for the proposal (Vehtari et al., Pareto smoothed importance sampling). The tail consists of
    :math:`\min(S / 5, 3 \sqrt S)` of S weights. k is the posterior mean of Zhang and Stephens
    (2009), shrunk towards 0.5 with the weight of ten observations, as is usual for short tails.

    Args:
        log_weights: (draws,) up to a constant.
    """
    draws = len(log_weights)
    tail = int(np.ceil(min(draws / 5, 3 * np.sqrt(draws))))
    ordered = np.sort(log_weights) - np.max(log_weights)
    excess = np.exp(ordered[-tail:]) - np.exp(ordered[-tail - 1])
    if excess[-1] <= 0 or (excess[0] <= 0 and np.count_nonzero(excess > 0) < 5):
        return -np.inf  # all weights are equal
    k = _fit_shape(excess)
    return float((tail * k + 10 * 0.5) / (tail + 10))


def _fit_shape(excess: np.ndarray) -> float:
    """Zhang and Stephens' estimate of k from excesses in ascending order."""
    count = len(excess)
    grid = 30 + int(np.sqrt(count))
    quartile = excess[int(count / 4 + 0.5) - 1]
    b = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    b = b / (3 * quartile) + 1 / excess[-1]
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    log_profile = count * (np.log(-b / k) - k - 1)
    weights = 1 / np.exp(log_profile - log_profile[:, None]).sum(axis=1)
    weights /= weights.sum()
    return float(np.log1p(-np.sum(b * weights) * excess).mean())


DRAWS = 100
"""Draws for the importance weights of Pareto's k."""

MOST_ROUNDS = 6
"""Updates of a prior's hyperparameters, each from the mode under the previous ones."""

SETTLED = 0.05
"""Root-mean-square move of the parameters in the last round, in standard deviations."""

WORTH_OF_MODEL = 5
"""Queries that the model's own variance counts as, next to the differences between queries."""

MOST_FOR_TAIL = 20_000
"""Pairs up to which Pareto's k is computed; with more the posterior is Gaussian anyway."""


class FoundPosterior(NamedTuple):
    """What a search for the posterior finds.

    Attributes:
        parameters: at the posterior mean.
        posterior: around them.
        bias: position bias at the mode, and what it owes to each group of queries; None where
            unattractive items are clicked too.
    """

    parameters: Parameters
    posterior: ParameterPosterior
    bias: BiasEstimate | None


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
    """The log density of the click model's parameters and the last layer, the body being fixed."""
    contexts = pairs.batches.counts.contexts
    free = clicks.free(len(contexts), anchor)
    assumed = clicks.prior(contexts, anchor)
    if known is not None:
        assumed = assumed.given(known.mean[free], known.sd[free])
    prior = Prior(assumed, np.ones(0))
    width = len(parameters.layers[-1][0])
    body = parameters.layers[:-1]
    density = Density(pairs, body, Emitter(clicks, len(contexts), anchor), prior, width)
    exposed = exposure_columns(pairs.inputs)
    spread = layer_spread(mean_square_inputs(density), exposed)
    slopes = slopes_in(exposed, width)
    return density.with_prior(replace(prior, layer_sd=spread, slopes=slopes))


def exposure_columns(inputs: Inputs | None) -> slice | None:
    """The columns of exposure among the inputs of a wide last layer; None if it has none."""
    if inputs is None or inputs.exposure is None:
        return None
    return slice(len(inputs.scaler.mean), inputs.width)


def require_numpyro() -> None:
    """Raise an InputError if numpyro is not installed."""
    otherwise = 'use theta_posterior="laplace"'
    require_extra('theta_posterior="nuts"', ["numpyro"], "nuts", otherwise)


def find_posterior(
    pairs: PairSet,
    parameters: Parameters,
    clicks: ClickModel,
    anchor: int | None,
    how: ThetaPosterior = "laplace",
    known: KnownBias | None = None,
    seed: int = 0,
    progress: bool = True,
) -> FoundPosterior:
    """Parameters at the posterior mean, and the posterior.

    Args:
        pairs: clicks and inputs of all pairs.
        parameters: the trained ones, from which the search starts; their body is kept.
        clicks: the click model.
        anchor: the context whose bias is 1, or None.
        how: "laplace", or "nuts" for MCMC samples of the same density in addition.
        known: position bias known from elsewhere.
        seed: of all draws.
        progress: whether to show a progress bar of the chains on a terminal.
    """
    density = make_density(pairs, parameters, clicks, anchor, known)
    density, mode = find_mode_and_prior(density, to_vector(parameters, clicks, anchor))
    clusters, scores = pairs.all_counts.clusters, None
    if clusters is not None:
        scores = cluster_scores(density, mode.vector, clusters)
    bayes, robust = covariances(mode, density.prior, scores)
    floor = floor_parameter(clicks, len(pairs.batches.counts.contexts), anchor)
    curved = None
    if floor is not None and not density.prior.fixed.any():
        curved = bend(density, mode.vector, bayes, floor, seed)
    if curved is None:
        mean, ridge = posterior_mean(density, mode.vector, bayes, seed), None
    else:
        mean, ridge = curved
    posterior = ParameterPosterior(
        mean=mean,
        bayes=bayes,
        robust=robust,
        pareto_k=_tail(density, mean, bayes, seed) if pairs.count <= MOST_FOR_TAIL else None,
        gradient=float(np.sqrt(mode.gradient @ bayes @ mode.gradient)),
        hyperparameters=density.prior.clicks.hyperparameters(),
        ridge=ridge,
    )
    if how == "nuts":
        from epiclick.posterior.nuts import sample

        drawn = sample(density, mode.vector, bayes, seed, progress=progress)
        posterior = replace(posterior, samples=drawn)
    at_mean = from_vector(parameters, clicks, anchor, mean)
    bias = bias_influence(density, mode, bayes, exposure_columns(pairs.inputs))
    return FoundPosterior(at_mean, posterior, bias)


def find_mode_and_prior(density: Density, start: np.ndarray) -> tuple[Density, Mode]:
    """The mode, and the density with the hyperparameters of its prior estimated."""
    mode = find_mode(density, start)
    for _ in range(MOST_ROUNDS):
        prior = density.prior.learned(mode.vector, mode.curvature.hessian)
        if prior is density.prior:
            break
        density = density.with_prior(prior)
        before, mode = mode, find_mode(density, mode.vector)
        moved = mode.vector - before.vector
        if moved @ -mode.curvature.hessian @ moved < SETTLED**2 * len(moved):
            break
    if density.prior.slopes:
        prior = learned_slopes(density.prior, mode)
        moved_mode = with_other_prior(mode, density.prior, prior)
        density = density.with_prior(prior)
        mode = settled(density, moved_mode) or find_mode(density, moved_mode.vector)
    return density, mode


def learned_slopes(prior: Prior, mode: Mode) -> Prior:
    """The prior with standard deviations of slopes learned from the posterior at a mode."""
    return prior.with_slopes(mode.vector, inverse(-mode.curvature.hessian, prior.fixed))


def with_other_prior(mode: Mode, prior: Prior, other: Prior) -> Mode:
    """The mode under another Gaussian prior of the layer, if the likelihood is Gaussian around it.

    Scores stay where they were: only the prior has changed.
    """
    vector, here = mode.vector, mode.curvature
    hessian = here.hessian + other.hessian(vector) - prior.hessian(vector)
    gradient = mode.gradient + other.gradient(vector) - prior.gradient(vector)
    moved = vector + inverse(-hessian, prior.fixed) @ gradient
    nothing = np.zeros_like(moved)
    return Mode(moved, nothing, here._replace(hessian=hessian, gradient=nothing))


def covariances(
    mode: Mode, prior: Prior, by_cluster: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """`bayes` and `robust`, each (size, size).

    Args:
        mode: of the log density.
        prior: its prior.
        by_cluster: (groups, size) scores of groups of other clusters than queries.
    """
    hessian, scores = mode.curvature.hessian, mode.curvature.scores
    assumed = -prior.hessian(mode.vector)  # precision
    bayes = inverse(-hessian, prior.fixed)
    if by_cluster is not None:
        return bayes, bayes @ (between_groups(by_cluster) + assumed) @ bayes
    by_model = -hessian - assumed
    queries = np.sum(np.any(scores != 0, axis=1))
    factor = queries / max(queries - np.trace(by_model @ bayes), 1.0)
    by_queries = factor * scores.T @ scores
    spread = (queries * by_queries + WORTH_OF_MODEL * by_model) / (queries + WORTH_OF_MODEL)
    return bayes, bayes @ (spread + assumed) @ bayes


def _tail(density: Density, mean: np.ndarray, covariance: np.ndarray, seed: int) -> float | None:
    """Pareto's k of the importance weights of position bias drawn from the Gaussian.

    The last layer is set to its conditional mean given each draw. If it were drawn too, each of its
    hundreds of parameters would add a little variance to the weights, and k would be large even
    where all quantities that depend on them are well known.
    """
    along = bias_directions(density, covariance)
    if not len(along):
        return None
    noise = np.random.default_rng([seed, 5]).standard_normal((DRAWS, len(along)))
    log_weights = density.relative(mean, mean + noise @ along)
    return pareto_k(log_weights + 0.5 * np.square(noise).sum(axis=1))

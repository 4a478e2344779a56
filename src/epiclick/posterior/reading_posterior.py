"""From the pages of a log to the posterior of a model whose users may stop after a click."""

from dataclasses import dataclass, replace

import numpy as np

from epiclick.batching.pairset import Inputs
from epiclick.click_models.click_model import SATISFACTION, ClickModel
from epiclick.data.counts import ClickCounts
from epiclick.data.outcome_counts import outcome_counts
from epiclick.fitted.parameters import ParameterPosterior, Parameters, from_vector, to_vector
from epiclick.posterior.density import query_clusters
from epiclick.posterior.joint_prior import Prior, layer_spread, slopes_in
from epiclick.posterior.laplace import (
    covariances,
    exposure_columns,
    learned_slopes,
    with_other_prior,
)
from epiclick.posterior.reading_mode import (
    MOST_STEPS,
    ReadingDensity,
    ReadingMode,
    climb,
    find_reading_mode,
)
from epiclick.reading.channels import ContextChannel, ItemChannel
from epiclick.reading.stops import Evidence
from epiclick.relevance.heads import exposure
from epiclick.relevance.network import Layers, given_to_last, init_exposure
from epiclick.training.progress import TrainingBar


@dataclass(frozen=True, eq=False)
class ReadingFit:
    """The posterior of a model, and how it was found.

    Attributes:
        parameters: at the mode.
        posterior: around it.
        density: of the parameters.
        found: the mode with its chains.
        steps: number of steps that led to it.
    """

    parameters: Parameters
    posterior: ParameterPosterior
    density: ReadingDensity
    found: ReadingMode
    steps: int


def fit_reading(
    counts: ClickCounts,
    parameters: Parameters,
    clicks: ClickModel,
    anchor: int | None,
    inputs: Inputs | None,
    seed: int,
    *,
    progress: bool = False,
) -> ReadingFit:
    """The posterior of the click model's parameters and the last layers, bodies being fixed.

    Args:
        counts: with the lists of their pages.
        parameters: from which the search starts; bodies of the networks are kept.
        clicks: the click model.
        anchor: context at which relevance is measured.
        inputs: of the networks; None without features.
        seed: of all draws.
        progress: whether to show a progress bar on a terminal.
    """
    density = make_reading_density(counts, parameters, clicks, anchor, inputs)
    steps = 0
    with TrainingBar(MOST_STEPS, 1, shown=progress) as bar:

        def count() -> None:
            nonlocal steps
            steps += 1
            bar.step()

        found = find_reading_mode(density, to_vector(parameters, clicks, anchor), seed, count)
    if density.prior.slopes:
        prior = learned_slopes(density.prior, found.mode)
        found = replace(found, mode=with_other_prior(found.mode, density.prior, prior))
        density = replace(density, prior=prior)
    bayes, robust = covariances(found.mode, density.prior)
    posterior = ParameterPosterior(
        mean=found.mode.vector,
        bayes=bayes,
        robust=robust,
        pareto_k=None,
        gradient=float(np.sqrt(found.mode.gradient @ bayes @ found.mode.gradient)),
    )
    own = from_vector(parameters, clicks, anchor, found.mode.vector)
    return ReadingFit(own, posterior, density, found, steps)


def make_reading_density(
    counts: ClickCounts,
    parameters: Parameters,
    clicks: ClickModel,
    anchor: int | None,
    inputs: Inputs | None,
) -> ReadingDensity:
    """The log density of the parameters given all pages of the counts."""
    assert counts.lists is not None
    cluster = query_clusters(counts)
    clusters = int(cluster.max(initial=0)) + 1
    x = exposure(counts.dense()[0]) if inputs is None else inputs.take(np.arange(len(counts)))
    networks = [parameters.layers]
    if SATISFACTION in clicks.channels:
        networks.append(parameters.satisfaction)
    channels = [ItemChannel(_given(layers, x), cluster, clusters) for layers in networks]
    exposed = exposure_columns(inputs)
    spread = [
        layer_spread(np.square(each.given[:, :-1]).mean(axis=0), exposed) for each in channels
    ]
    free = len(clicks.free(len(counts.contexts), anchor))
    return ReadingDensity(
        evidence=Evidence.of(counts.lists, len(counts)),
        attraction=channels[0],
        satisfaction=channels[1] if len(channels) > 1 else None,
        going_on=ContextChannel(free, clusters) if free else None,
        prior=Prior(
            clicks.prior(counts.contexts, anchor),
            np.concatenate(spread),
            slopes_in(exposed, channels[0].given.shape[1] - 1, len(channels)),
        ),
    )


def _given(layers: Layers, inputs: np.ndarray) -> np.ndarray:
    """(pairs, units + 1) inputs of the last layer, and 1."""
    hidden = given_to_last(layers[:-1], inputs, len(layers[-1][0]))
    return np.concatenate([*hidden, np.ones((len(inputs), 1))], axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A log in which it is known who went on, to train networks on.

    Attributes:
        clicks: displays that were read, and clicks on them.
        satisfaction: clicks, and those after which users stopped.
    """

    clicks: ClickCounts
    satisfaction: ClickCounts


def complete_log(
    counts: ClickCounts, start: Parameters, clicks: ClickModel, anchor: int | None, seed: int
) -> tuple[Parameters, Outcomes]:
    """A draw of who went on under a model without features, and that model's parameters.

    Networks are trained on its outcomes; their last layers are then found given the clicks alone.

    Args:
        counts: with the lists of their pages.
        start: initial parameters of the click model.
        clicks: the click model.
        anchor: context at which relevance is measured.
        seed: of all draws.
    """
    layers = init_exposure(len(counts.contexts), outputs=2, mean=START_MEAN)
    satisfaction = layers if SATISFACTION in clicks.channels else ()
    own = Parameters(layers, start.position, satisfaction)
    density = make_reading_density(counts, own, clicks, anchor, None)
    # the completion is a draw: a start for what is found from the clicks need not be the mode
    vector, chains, _ = climb(density, to_vector(own, clicks, anchor), seed)
    chains.sweep(density.items(vector))
    evidence = density.evidence
    known = evidence.completed(chains.went_on[0])
    return from_vector(own, clicks, anchor, vector), Outcomes(
        outcome_counts(counts, known.read, evidence.clicks),
        outcome_counts(counts, known.stopped + known.went_on, known.stopped),
    )


START_MEAN = 0.2
"""Relevance that a search without features starts from."""

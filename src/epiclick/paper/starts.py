"""What a variant learns from, and where it starts; see `paper.settings` for the reasons."""

from dataclasses import dataclass

import numpy as np

from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.estimators import make_estimator
from epiclick.models.parameters import Parameters
from epiclick.models.position import START_CONFIDENCE, BetaLookup, PointLookup
from epiclick.network import Layers
from epiclick.paper.settings import Settings
from epiclick.paper.variants import Variant
from epiclick.posterior.anchor import resolve_anchor
from epiclick.relevance.first_layers import init_relevance
from epiclick.training.objective import EpistemicObjective, Objective, PointwiseObjective
from epiclick.training.settings import TrainingSettings

SPREAD = 0.1
"""Factor on the He normal weights of the last layer: means start near 1/2 and confidences near 1
for all pairs, as in the paper, where the full weights would spread them from the outset."""

PBM = click_model("pbm")  # the paper's model of users

LEAST_MEAN, MOST_MEAN = 0.01, 0.9  # of relevance that starts at a click rate


@dataclass(frozen=True, eq=False)
class Start:
    """Where training begins.

    Attributes:
        objective: what is maximised.
        parameters: the first ones.
        anchor: context whose bias is 1; None for the paper's free scale.
    """

    objective: Objective
    parameters: Parameters
    anchor: int | None


def start_of(variant: Variant, settings: Settings, train: ClickCounts, seed: int) -> Start:
    """Objective and first parameters of a variant on some training pairs."""
    assert train.features is not None
    rng, width = np.random.default_rng([seed, 0]), len(train.features.names)
    contexts = len(train.contexts)
    if variant.pointwise:
        layers = init_relevance(rng, width, settings.hidden, outputs=1, mean=variant.start)
        layers = _alike(layers)
        logit = np.log(variant.start) - np.log1p(-variant.start)
        parameters = Parameters(layers, PointLookup(np.full(contexts, logit)))
        return Start(PointwiseObjective(PBM, None), parameters, None)
    estimator = make_estimator(
        variant.estimator, settings.samples, variant.baseline, variant.literal
    )
    if estimator.is_point:
        anchor = resolve_anchor(train, "auto").index
        rate = _click_rates(train)
        mean = float(np.clip(rate[anchor], LEAST_MEAN, MOST_MEAN))
        layers = init_relevance(rng, width, settings.hidden, outputs=2, mean=mean, wide=True)
        parameters = Parameters(layers, PointLookup(PBM.start(rate, anchor)))
    else:
        anchor = None
        layers = init_relevance(rng, width, settings.hidden, outputs=2, mean=variant.start)
        layers = _unsure(_alike(layers), constant=variant.frozen)
        position = BetaLookup(np.zeros(contexts), np.full(contexts, START_CONFIDENCE))
        parameters = Parameters(layers, position)
    objective = EpistemicObjective(
        estimator, variant.entropy, PBM, anchor, settings.samples, frozen=variant.frozen
    )
    return Start(objective, parameters, anchor)


def training_of(variant: Variant, settings: Settings, seed: int) -> TrainingSettings:
    """How long and how fast a variant is trained: to the last epoch, whatever comes."""
    rate = settings.rates[variant.tuned]
    return TrainingSettings(
        epochs=settings.epochs,
        batch_size=batch_size_of(variant, settings),
        learning_rate=rate,
        position_rate=1.0 if variant.plain_rate else settings.lookup_rate / rate,
        weight_decay=settings.weight_decay,
        patience=None,
        decay=False,
        seed=seed,
    )


def batch_size_of(variant: Variant, settings: Settings) -> int:
    """Pairs in a batch."""
    large = variant.pointwise and not variant.small_batches
    return settings.pointwise_batch_size if large else settings.batch_size


def _alike(layers: Layers[np.ndarray]) -> Layers[np.ndarray]:
    """The network with outputs that start close to each other."""
    *body, (weight, bias) = layers
    return (*body, (np.float32(SPREAD) * weight, bias))


def _unsure(layers: Layers[np.ndarray], *, constant: bool) -> Layers[np.ndarray]:
    """The network with confidences that start near 1; the same for all pairs if `constant`."""
    *body, (weight, bias) = layers
    weight, bias = weight.copy(), bias.copy()
    bias[1] = START_CONFIDENCE
    if constant:
        weight[:, 1] = 0
    return (*body, (weight, bias))


def _click_rates(counts: ClickCounts) -> np.ndarray:
    """(contexts,) clicks a display; NaN where there is none."""
    clicks, displays = (
        np.bincount(counts.context, amount, len(counts.contexts))
        for amount in (counts.clicks, counts.displays)
    )
    with np.errstate(invalid="ignore"):
        return clicks / displays

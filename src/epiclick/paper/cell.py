"""One cell: a variant is trained in one run, measured along the way, and saved.

Training is that of `training.loop`. A cell that was killed resumes from its last checkpoint, with
the same numbers as if it had not been interrupted.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from epiclick.api import MODELS
from epiclick.batching.pairset import PairSet
from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputWarning
from epiclick.estimators.names import make_estimator
from epiclick.fitted.parameters import START_CONFIDENCE, BetaLookup, Parameters, PointLookup
from epiclick.fitted.state import FeatureSpec, FittedModel, QuerySets, TrainingSummary, head_of
from epiclick.identification.anchor import resolve_anchor
from epiclick.memory import current_memory, peak_memory, reset_peak_memory
from epiclick.paper.cells import CellFiles
from epiclick.paper.measuring import CellRecorder, Measure, OnEpoch
from epiclick.paper.results import Cost
from epiclick.paper.settings import Settings
from epiclick.paper.variants import Variant
from epiclick.paper.worlds import Bench, RunData
from epiclick.posterior.laplace import find_posterior
from epiclick.relevance.network import Layers, init_relevance
from epiclick.training.checkpoint import Checkpoint, digest_settings
from epiclick.training.loop import Training
from epiclick.training.objective import Diverged, EpistemicObjective, Objective, PointwiseObjective
from epiclick.training.optimizer import TrainingSettings

SPREAD = 0.1
"""Factor on the He normal weights of the last layer, so that means and confidences start near the
same values for all pairs, as in the paper. Full weights would spread relevance at random, over a
logit or more. Training corrects that for the pairs it sees; without weight decay and at the low
rates of this setup it stays with all others."""

PBM = click_model("pbm")  # the paper's click model

AT_POSTERIOR = ("theta", "per_display")
"""Quantities that are also measured at the mean of the posterior, where there is one."""

LEAST_MEAN, MOST_MEAN = 0.01, 0.9  # of relevance that is initialised to a click rate

MOST_MEMORY = 3 * 2**30
"""Bytes above which compiled programs are released after a cell; each variant has its own."""


@dataclass(frozen=True, eq=False)
class Start:
    """The starting point of training.

    Attributes:
        objective: to be maximised.
        parameters: the initial ones.
        anchor: context whose bias is 1; None for the paper's free scale.
    """

    objective: Objective
    parameters: Parameters
    anchor: int | None


def start_of(variant: Variant, settings: Settings, train: ClickCounts, seed: int) -> Start:
    """Objective and initial parameters of a variant on given training pairs."""
    assert train.features is not None
    rng, width = np.random.default_rng([seed, 0]), len(train.features.names)
    contexts = len(train.contexts)
    if variant.pointwise:
        layers = _similar(
            init_relevance(rng, width, settings.hidden, outputs=1, mean=variant.start)
        )
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
        layers = _similar(
            init_relevance(rng, width, settings.hidden, outputs=2, mean=mean, wide=True)
        )
        parameters = Parameters(layers, PointLookup(PBM.start(rate, anchor)))
    else:
        anchor = None
        layers = init_relevance(rng, width, settings.hidden, outputs=2, mean=variant.start)
        layers = _unconfident(_similar(layers), constant=variant.frozen)
        position = BetaLookup(np.zeros(contexts), np.full(contexts, START_CONFIDENCE))
        parameters = Parameters(layers, position)
    objective = EpistemicObjective(
        estimator, variant.entropy, PBM, anchor, settings.samples, frozen=variant.frozen
    )
    return Start(objective, parameters, anchor)


def training_of(variant: Variant, settings: Settings, seed: int) -> TrainingSettings:
    """Training settings of a variant: always to the last epoch, without early stopping."""
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
    """Pairs per batch."""
    large = variant.pointwise and not variant.small_batches
    return settings.pointwise_batch_size if large else settings.batch_size


def _similar(layers: Layers[np.ndarray]) -> Layers[np.ndarray]:
    """The network with similar initial outputs for all pairs."""
    *body, (weight, bias) = layers
    return (*body, (np.float32(SPREAD) * weight, bias))


def _unconfident(layers: Layers[np.ndarray], *, constant: bool) -> Layers[np.ndarray]:
    """The network with initial confidences near 1; the same for all pairs if `constant`."""
    *body, (weight, bias) = layers
    weight, bias = weight.copy(), bias.copy()
    bias[1] = START_CONFIDENCE
    if constant:
        weight[:, 1] = 0
    return (*body, (weight, bias))


def _click_rates(counts: ClickCounts) -> np.ndarray:
    """(contexts,) clicks per display; NaN without displays."""
    clicks, displays = (
        np.bincount(counts.context, amount, len(counts.contexts))
        for amount in (counts.clicks, counts.displays)
    )
    with np.errstate(invalid="ignore"):
        return clicks / displays


def run_cell(bench: Bench, variant: Variant, run: int, folder: Path, on_epoch: OnEpoch) -> None:
    """Run a cell, and save its rows and its cost in the folder of the reproduction."""
    began = time.monotonic()
    reset_peak_memory()
    with warnings.catch_warnings():
        # some variants are meant to break the model
        warnings.simplefilter("ignore", InputWarning)
        recorder, diverged = _train(bench, variant, run, folder, on_epoch)
    seconds = time.monotonic() - began
    cost = Cost(variant.key, run, recorder.training_seconds, seconds, peak_memory())
    rankers = list(bench.rankers.names) if variant.ranker else []
    recorder.files.finish(recorder.record, cost, diverged=diverged, rankers=rankers)
    if current_memory() > MOST_MEMORY:
        jax.clear_caches()


def _train(
    bench: Bench, variant: Variant, run: int, folder: Path, on_epoch: OnEpoch
) -> tuple[CellRecorder, int | None]:
    """Train and measure a cell; also return the epoch in which it diverged, if it did."""
    settings, data, seed = bench.settings, bench.data(run), bench.seed(run)
    start = start_of(variant, settings, data.train, seed)
    fitted = _model(variant, data, start)
    pairs = bench.pairs(run, batch_size_of(variant, settings))
    files = CellFiles(folder, variant, run)
    depends = {
        "settings": digest_settings((settings.of_cells(), variant, run)),
        "versions": f"epiclick {version('epiclick')}, jax {version('jax')}",
    }
    recorder = CellRecorder(
        settings,
        files,
        Measure(fitted, data, bench.scored(run), seed),
        Checkpoint(files.checkpoint, depends),
        len(pairs.batches),
        on_epoch,
    )
    training = Training(
        start.objective,
        [start.parameters],
        pairs,
        None,
        training_of(variant, settings, seed),
        keep=recorder.keep,
    )
    try:
        state = training.run(recorder.resumed(training.start()))
    except Diverged:
        epoch = recorder.fill_diverged(start.parameters)
        if variant.posterior:
            none = {
                k: np.full_like(v, np.nan) for k, v in recorder.measure(start.parameters).items()
            }
            recorder.record.add(settings.epochs, _at_posterior(none))
        recorder.record.add(settings.epochs, _no_rankers(bench, variant))
        return recorder, epoch
    fitted = replace(fitted, parameters=state.parameters[0])
    if variant.posterior:
        fitted = _with_posterior(fitted, pairs, seed)
        recorder.record.add(settings.epochs, _at_posterior(recorder.measure(fitted.parameters)))
    recorder.record.add(settings.epochs, _rankers(bench, variant, run, fitted))
    return recorder, None


def _with_posterior(fitted: FittedModel, pairs: PairSet, seed: int) -> FittedModel:
    """The model at the mean of the posterior of position bias and last layer, with that posterior.

    This is how fits of this library end. During training position bias is that of a network which
    has not learned all of relevance yet, and attributes part of the rest to position.
    """
    parameters, posterior, _ = find_posterior(
        pairs, fitted.parameters, fitted.clicks, fitted.anchor, seed=seed, progress=False
    )
    return replace(fitted, parameters=parameters, posterior=posterior)


def _at_posterior(measured: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those measurements that are kept of a model at the mean of its posterior."""
    return {f"posterior_{name}": measured[name] for name in AT_POSTERIOR}


def _rankers(
    bench: Bench, variant: Variant, run: int, fitted: FittedModel
) -> dict[str, np.ndarray]:
    """Values of rankers by single features, if the variant has them (paper, section 7.5)."""
    if not variant.ranker:
        return {}
    model = MODELS[fitted.kind]()
    model.fitted_ = fitted
    samples = bench.rankers.values_by(model, bench.settings.ranker_samples, bench.seed(run))
    found = {"ranker_truth": bench.rankers.truth, "ranker_value": samples.mean(axis=1)}
    return found if variant.pointwise else {**found, "ranker_sample": samples}


def _no_rankers(bench: Bench, variant: Variant) -> dict[str, np.ndarray]:
    """The same for a model that has diverged: the truth, and NaN for its values."""
    if not variant.ranker:
        return {}
    truth = bench.rankers.truth
    nothing = np.full((len(truth), bench.settings.ranker_samples), np.nan)
    found = {"ranker_truth": truth, "ranker_value": nothing[:, 0]}
    return found if variant.pointwise else {**found, "ranker_sample": nothing}


def _model(variant: Variant, data: RunData, start: Start) -> FittedModel:
    """A model of the variant's kind, with its initial parameters."""
    train = data.train
    assert train.features is not None
    queries = train.query_id.unique()
    return FittedModel(
        kind=variant.kind,
        head=head_of(variant.kind, with_features=True),
        settings={},
        parameters=start.parameters,
        anchor=start.anchor,
        contexts=train.contexts,
        features=FeatureSpec(train.features.names, data.scaler),
        options=train.options,
        queries=QuerySets(queries, queries.slice(0, 0)),
        items=None,
        training=TrainingSummary(
            pairs=len(train),
            displays=train.total_displays,
            clicks=train.total_clicks,
            epochs=0,
            best_epoch=0,
            seconds=0.0,
            log_likelihood=float("nan"),
            history=pd.DataFrame(),
        ),
    )

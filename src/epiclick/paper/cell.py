"""One cell: one variant trained in one run, measured on the way, and kept.

Training is that of `training.loop`. A cell that was killed goes on from its last checkpoint, to the
very numbers it would have found.
"""

import time
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from epiclick.api import MODELS
from epiclick.errors import InputWarning
from epiclick.models.fitted import FeatureSpec, FittedModel, QuerySets, TrainingSummary
from epiclick.models.kinds import head_of
from epiclick.models.parameters import Parameters
from epiclick.paper.files import CellFiles
from epiclick.paper.measuring import Measure
from epiclick.paper.memory import forget_peak, held_memory, peak_memory
from epiclick.paper.results import Cost
from epiclick.paper.starts import Start, batch_size_of, start_of, training_of
from epiclick.paper.variants import Variant
from epiclick.paper.watch import Tell, Watch
from epiclick.paper.worlds import Bench, RunData
from epiclick.posterior.position import find_posterior
from epiclick.training.checkpoint import Checkpoint, digest_settings
from epiclick.training.loop import Training
from epiclick.training.objective import Diverged

MOST_HELD = 3 * 2**30
"""Bytes above which compiled programs are let go after a cell; each variant has its own."""


def run_cell(bench: Bench, variant: Variant, run: int, folder: Path, tell: Tell) -> None:
    """Do a cell, and keep its rows and its cost in the folder of the reproduction."""
    began = time.monotonic()
    forget_peak()
    with warnings.catch_warnings():
        # what breaks a model is the point of some variants
        warnings.simplefilter("ignore", InputWarning)
        watch, diverged = _train(bench, variant, run, folder, tell)
    seconds = time.monotonic() - began
    cost = Cost(variant.key, run, watch.training_seconds, seconds, peak_memory())
    rankers = list(bench.rankers.names) if variant.ranker else []
    watch.files.finish(watch.record, cost, diverged=diverged, rankers=rankers)
    if held_memory() > MOST_HELD:
        jax.clear_caches()


def _train(
    bench: Bench, variant: Variant, run: int, folder: Path, tell: Tell
) -> tuple[Watch, int | None]:
    """Train and measure a cell; the second is the epoch in which it diverged, if it did."""
    settings, data, seed = bench.settings, bench.data(run), bench.seed(run)
    start = start_of(variant, settings, data.train, seed)
    fitted = _model(variant, data, start)
    pairs = bench.pairs(run, batch_size_of(variant, settings))
    files = CellFiles(folder, variant, run)
    depends = {
        "settings": digest_settings((settings.deciding(), variant, run)),
        "versions": f"epiclick {version('epiclick')}, jax {version('jax')}",
    }
    watch = Watch(
        settings,
        files,
        Measure(fitted, data, bench.scored(run), seed),
        Checkpoint(files.checkpoint, depends),
        len(pairs.batches),
        tell,
    )
    training = Training(
        start.objective,
        start.parameters,
        pairs,
        None,
        training_of(variant, settings, seed),
        keep=watch.keep,
    )
    try:
        state = training.run(watch.resumed(training.start()))
    except Diverged:
        epoch = watch.give_up(start.parameters)
        watch.record.add(settings.epochs, _no_rankers(bench, variant))
        return watch, epoch
    parameters = jax.tree.map(np.asarray, state.parameters)
    watch.record.add(settings.epochs, _rankers(bench, variant, run, fitted, parameters))
    return watch, None


def _rankers(
    bench: Bench, variant: Variant, run: int, fitted: FittedModel, parameters: Parameters
) -> dict[str, np.ndarray]:
    """What the model says of rankers by single features, if it is asked (paper, section 7.5)."""
    if not variant.ranker:
        return {}
    settings, seed = bench.settings, bench.seed(run)
    fitted = replace(fitted, parameters=parameters)
    if variant.ranker == "joint":
        pairs = bench.pairs(run, batch_size_of(variant, settings))
        parameters, posterior = find_posterior(
            pairs, parameters, fitted.clicks, fitted.anchor, seed=seed, progress=False
        )
        fitted = replace(fitted, parameters=parameters, posterior=posterior)
    model = MODELS[fitted.kind]()
    model.fitted_ = fitted
    samples = bench.rankers.judged_by(model, settings.ranker_samples, seed)
    found = {"ranker_truth": bench.rankers.truth, "ranker_value": samples.mean(axis=1)}
    return found if variant.pointwise else {**found, "ranker_sample": samples}


def _no_rankers(bench: Bench, variant: Variant) -> dict[str, np.ndarray]:
    """The same of a model that has diverged."""
    if not variant.ranker:
        return {}
    truth = bench.rankers.truth
    nothing = np.full((len(truth), bench.settings.ranker_samples), np.nan)
    found = {"ranker_truth": truth, "ranker_value": nothing[:, 0]}
    return found if variant.pointwise else {**found, "ranker_sample": nothing}


def _model(variant: Variant, data: RunData, start: Start) -> FittedModel:
    """A model of the variant's kind, with its first parameters."""
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

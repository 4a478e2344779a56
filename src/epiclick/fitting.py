"""From counts to a fitted model: hold out queries, train, find the posterior, check the fit."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epiclick.arguments import ThetaPosterior
from epiclick.batching.batches import Shapes
from epiclick.batching.pairset import Inputs, PairSet, fit_scaler, rows_for_scale
from epiclick.batching.shares import Share, shards_of
from epiclick.click_models.click_model import SATISFACTION, ClickModel
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.collective import ALONE, Collective
from epiclick.data.arrays import is_among, locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.feature_encoding import FeatureEncoding
from epiclick.data.features import FeatureScaler
from epiclick.diagnostics.checks import check_fit
from epiclick.diagnostics.reading_check import mean_log_likelihood, reading_record
from epiclick.errors import InputError, InputWarning
from epiclick.fitted.exposure import (
    ExposureModel,
    exposure_of,
    learn_exposure,
    with_exposure,
    without_exposure,
)
from epiclick.fitted.parameters import (
    Lookup,
    ParameterPosterior,
    Parameters,
    PointLookup,
    init_betas,
    leaves,
    parameter_draws,
)
from epiclick.fitted.prediction import display_chances
from epiclick.fitted.state import FeatureSpec, FittedModel, Items, QuerySets, TrainingSummary
from epiclick.identification.anchor import Moved
from epiclick.identification.identifiability import check_anchor, named
from epiclick.identification.unbounded import UnboundedBias, unbounded_bias
from epiclick.posterior.climbing import Climb
from epiclick.posterior.items import known_items
from epiclick.posterior.laplace import KnownBias, find_posterior
from epiclick.posterior.reading_items import DRAWS as ITEM_DRAWS
from epiclick.posterior.reading_items import kept_items, reading_item_draws
from epiclick.posterior.reading_posterior import complete_log, fit_reading
from epiclick.processes import one_blas_thread, refuse_after_fork
from epiclick.relevance.heads import HEADS
from epiclick.relevance.network import Layers
from epiclick.training.checkpoint import Checkpoint, digest_counts, digest_settings, warm_start
from epiclick.training.ensemble import bootstrap_weights
from epiclick.training.loop import Epoch, Trained, Training
from epiclick.training.objective import EpistemicObjective, Objective
from epiclick.training.optimizer import TrainingSettings
from epiclick.training.progress import TrainingBar

LEAST_STEPS = 8  # per epoch


@dataclass(frozen=True, eq=False)
class Plan:
    """What to fit, and how.

    Attributes:
        kind: name of the public class.
        head: name of the relevance head.
        settings: the constructor's parameters, as they are stored.
        objective: what training maximises.
        hidden: units of the network's hidden layers.
        training: settings of the training loop.
        anchor: index of the context whose bias is 1, None for a free scale.
        moved: why an automatic anchor is not the first position.
        ratios: estimates of position bias without a bound, if the anchor's choice needed them.
        holdout: share of queries held out where no validation set is given.
        level: of the intervals that are stored.
        click_model: name of the click model.
        posterior: method for the posterior of position bias and last layer; None for no posterior.
        shapes: number and size of the batches of training and held-out pairs, to share compiled
            programs between fits to several logs.
        known: externally known position bias.
        wide: whether the network's last layer, which has a posterior, takes the units of all
            layers.
    """

    kind: str
    head: str
    settings: Mapping[str, Any]
    objective: Objective
    hidden: tuple[int, ...]
    training: TrainingSettings
    anchor: int | None
    holdout: float
    level: float
    click_model: str = "pbm"
    moved: Moved | None = None
    ratios: UnboundedBias | None = None
    posterior: ThetaPosterior | None = None
    shapes: tuple[Shapes, Shapes | None] | None = None
    known: KnownBias | None = None
    wide: bool = False

    @property
    def climbs(self) -> bool:
        """Whether the few parameters are found at the mode of their posterior, without training."""
        return self.posterior is not None and not HEADS[self.head].uses_features


@one_blas_thread()
def fit_model(
    plan: Plan,
    counts: ClickCounts,
    valid: ClickCounts | None = None,
    *,
    init: FittedModel | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    progress: bool = True,
    randomised: ClickCounts | None = None,
    encoding: FeatureEncoding | None = None,
    processes: Collective = ALONE,
) -> FittedModel:
    """Fit a model to counts.

    Args:
        plan: what to fit, and how.
        counts: pairs to learn from.
        valid: pairs for early stopping; default a share of the queries of `counts`.
        init: a model to start from.
        checkpoint: file for the state of training.
        resume: continue from the checkpoint.
        progress: show a progress bar, on a terminal.
        randomised: pages with a random ranking, not in `counts`, to compare position bias with.
        encoding: of features that are categories or may be missing; default that of `init`, else
            it is learned from the training pairs.
        processes: that fit the model together, each with the same arguments.
    """
    if processes.count > 1:
        _check_processes(plan, counts, valid, init, processes)
    if not plan.objective.is_point or plan.posterior == "nuts":
        refuse_after_fork()  # these use jax
    clicks = CLICK_MODELS[plan.click_model]
    counts = _with_usable_clusters(plan, _explained(clicks, counts))
    valid = None if valid is None else _explained(clicks, valid)
    train, held_out = _hold_out(plan, counts, valid)
    encoding = _encoding(train, init) if encoding is None else encoding
    if encoding is not None:
        counts, train = _encoded(counts, encoding), _encoded(train, encoding)
        held_out = None if held_out is None else _encoded(held_out, encoding)
    if plan.anchor is not None and not clicks.knows_examination:
        check_anchor(train, plan.anchor)
    scaler = fit_scaler(train) if init is None or init.features is None else init.features.scaler
    weight, settings = None, plan.training
    if settings.networks > 1 and settings.bootstrap:
        weight = bootstrap_weights(train, settings.members, settings.seed)
    width = len(train.given[0]) if scaler is None else len(scaler.mean)
    starts = _starts(plan, train, width, init)
    if resume and (plan.climbs or clicks.has_latent_state):
        raise InputError(
            "without features a fit takes moments and writes no checkpoint; leave out --resume"
            if plan.climbs
            else f"a fit of a {clicks.title} writes no checkpoint; leave out --resume",
            code="nothing-to-resume",
        )
    if clicks.has_latent_state:
        return _fit_reading(plan, counts, train, held_out, scaler, starts[0], progress)
    if plan.climbs:
        climb = Climb(plan.click_model, plan.anchor, plan.known, settings, progress, processes)
        trained = climb.run(train, held_out, starts, weight)
    else:
        saved = None
        if checkpoint is not None:
            run = {
                "log": _digest(counts, valid, init),
                "settings": digest_settings(_dependencies(plan)),
                "versions": f"epiclick {version('epiclick')}, jax {version('jax')}",
            }
            saved = Checkpoint(checkpoint, run)
        trained = _train(
            plan, train, held_out, scaler, weight, starts, saved, resume, progress, processes
        )
    fitted, bias = _gather(plan, counts, train, held_out, trained, scaler), None
    if plan.posterior is not None:
        affine = fitted.clicks.is_affine
        # the posterior is that of all pairs, including those held out for early stopping
        if scaler is None:
            size = plan.training.batch_size
            whole = PairSet.distinct(counts, size, affine=affine, processes=processes)
        else:
            share = Share.of(counts, processes) if processes.count > 1 else None
            fitted, exposure = _exposed(plan, fitted, counts, share)
            size = plan.training.batch_size
            whole = PairSet.of(counts, scaler, size, affine=affine, exposure=exposure, share=share)
        parameters, posterior, bias = find_posterior(
            whole,
            fitted.parameters,
            fitted.clicks,
            plan.anchor,
            plan.posterior,
            plan.known,
            seed=plan.training.seed,
            progress=progress,
        )
        if scaler is not None:
            posterior = _with_body(posterior, parameters, clicks, plan.anchor, len(scaler.mean))
        fitted = replace(fitted, parameters=parameters, posterior=posterior)
    ratios = plan.ratios
    if plan.anchor is not None and ratios is None and not clicks.knows_examination:
        ratios = unbounded_bias(counts)
    found = check_fit(
        fitted, train, plan.level, plan.known, randomised, ratios, plan.moved, counts, bias
    )
    summary = replace(fitted.training, checks=found.records, warnings=found.warnings)
    items = _items(fitted, counts, plan.level, processes)
    return replace(fitted, training=summary, items=items)


def _check_processes(
    plan: Plan,
    counts: ClickCounts,
    valid: ClickCounts | None,
    init: FittedModel | None,
    processes: Collective,
) -> None:
    """Refuse, in all processes, what cannot be fitted by several, or other data in one of them."""
    clicks = CLICK_MODELS[plan.click_model]
    reasons = {
        f"a {clicks.title}": clicks.has_latent_state,
        f"estimator={plan.settings.get('estimator')!r}": not plan.objective.is_point,
        "theta_posterior='nuts'": plan.posterior == "nuts",
        f"members={plan.training.members}": plan.training.members > 1,
        "conversions": counts.conversions is not None,
    }
    if named := [name for name, is_so in reasons.items() if is_so]:
        raise InputError(
            f"{' and '.join(named)} cannot be fitted by several processes; these fit click models "
            "whose pages need no completion, with estimator='marginal', "
            "theta_posterior='laplace' and members=1. Fit it in one process",
            code="not-distributed",
        )
    own = f"{_digest(counts, valid, init)} {digest_settings(_dependencies(plan))}".encode()
    differs = own != processes.from_first(own)
    (numbers,) = processes.sum([np.eye(processes.count)[processes.rank] * differs])
    if numbers.any():
        other = ", ".join(map(str, np.flatnonzero(numbers)))
        raise InputError(
            f"process {other} read another log, features or settings than process 0; give all "
            "processes the same command and the same files",
            code="processes-differ",
        )


def _fit_reading(
    plan: Plan,
    counts: ClickCounts,
    train: ClickCounts,
    held_out: ClickCounts | None,
    scaler: FeatureScaler | None,
    start: Parameters,
    progress: bool,
) -> FittedModel:
    """Fit a click model whose users may stop after a click, which the log does not show.

    Networks are trained on a log completed by a model without features: who went on is drawn once.
    Their last layers are then found given the clicks alone.
    """
    if plan.settings["members"] > 1 or plan.known is not None or plan.posterior != "laplace":
        raise InputError(
            f"a {CLICK_MODELS[plan.click_model].title} is fitted with estimator='marginal', "
            "members=1, theta_posterior='laplace' and without a given position bias",
            code="not-for-this-click-model",
        )
    began = time.monotonic()
    clicks, seed = CLICK_MODELS[plan.click_model], plan.training.seed
    if scaler is None:
        train, held_out = counts, None  # all pages decide together who went on
        satisfaction = start.layers if SATISFACTION in clicks.channels else ()
        start = start._replace(satisfaction=satisfaction)
        history: list[Epoch] = []
    else:
        start, history = _train_reading(plan, counts, train, held_out, scaler, start, progress)
    exposure, inputs = None, None
    if scaler is not None:
        exposure = learn_exposure(counts, scaler, start.layers)
        columns = _exposure_columns(counts, scaler, start.layers, exposure)
        inputs = Inputs(counts, scaler, columns)
        start = _with_exposure(start)
    fit = fit_reading(counts, start, clicks, plan.anchor, inputs, seed, progress=progress)
    seconds = time.monotonic() - began
    steps = history or [Epoch(fit.steps, np.nan, None, 0, seconds)]
    best = max(
        steps, key=lambda row: row.log_likelihood if row.validation is None else row.validation
    )
    trained = Trained(
        [fit.parameters], [*steps[:-1], replace(steps[-1], seconds=seconds)], len(steps)
    )
    fitted = _gather(plan, counts, train, held_out, trained, scaler)
    if fitted.features is not None:
        fitted = replace(fitted, features=replace(fitted.features, exposure=exposure))
    posterior = fit.posterior
    if scaler is not None:
        posterior = _with_body(posterior, fit.parameters, clicks, plan.anchor, len(scaler.mean))
    fitted = replace(fitted, posterior=posterior)
    draws = parameter_draws(fitted, ITEM_DRAWS)
    items = reading_item_draws(fitted, counts, draws, seed)
    if scaler is None:
        fitted = replace(fitted, items=kept_items(counts, items, plan.level))
    found = check_fit(fitted, counts, plan.level, whole=counts)
    lost = fit.found.missing_share
    found.records["reading"] = reading_record(fitted, counts, draws, items, lost)
    scored = counts if held_out is None else held_out
    _, chance = display_chances(fitted, scored)
    summary = replace(
        fitted.training,
        epochs=fit.steps if scaler is None else len(history),
        best_epoch=fit.steps if scaler is None else best.epoch,
        log_likelihood=mean_log_likelihood(scored, chance),
        checks=found.records,
        warnings=found.warnings,
    )
    return replace(fitted, training=summary)


BODY_WIDENING = 1.25
"""Factor on the standard deviations of the last layer, which has a posterior given the network's
lower layers: these are estimated, too. Measured: with it, values of rankers and differences between
them are covered as often as they should be (docs/calibration). It is for the mean of relevance:
confidence, widened as well, made intervals of single items too wide. Exposure is no unit of the
lower layers."""


def _with_body(
    posterior: ParameterPosterior,
    parameters: Parameters,
    clicks: ClickModel,
    anchor: int | None,
    features: int,
) -> ParameterPosterior:
    """The posterior with an allowance for the network's lower layers."""
    networks = [each for each in (parameters.layers, parameters.satisfaction) if each]
    size = sum(np.size(part) for layers in networks for part in layers[-1])
    units = len(networks[0][-1][0])
    by = np.ones((len(networks), units + 1, 2))  # outputs are the mean and the confidence
    by[..., 0] = BODY_WIDENING
    inputs = len(networks[0][0][0])
    by[:, features:inputs] = 1.0  # exposure
    assert by.size == size
    return posterior.widened(np.concatenate([np.ones(len(posterior.mean) - size), by.ravel()]))


def _exposed(
    plan: Plan, fitted: FittedModel, counts: ClickCounts, share: Share | None
) -> tuple[FittedModel, np.ndarray | None]:
    """The model with a last layer that also takes exposure, and the exposure of its share of pairs.

    Networks are trained without it. A last layer that takes only the last units stays as it is.
    """
    if not plan.wide or fitted.features is None:
        return fitted, None
    scaler, layers = fitted.features.scaler, fitted.parameters.layers
    model = learn_exposure(counts, scaler, layers)
    exposed = replace(
        fitted,
        features=replace(fitted.features, exposure=model),
        parameters=_with_exposure(fitted.parameters),
        members=tuple(map(_with_exposure, fitted.members)),
    )
    return exposed, _exposure_columns(counts, scaler, layers, model, share)


def _exposure_columns(
    counts: ClickCounts,
    scaler: FeatureScaler,
    layers: Layers,
    model: ExposureModel,
    share: Share | None = None,
) -> np.ndarray:
    """(pairs, columns) float32 of exposure, which follow the features; 0 for pairs of others."""
    features, rows = counts.features, counts.feature_row
    assert features is not None
    assert rows is not None
    if share is None or share.own is None:
        return exposure_of(model, scaler, layers, features, rows, counts.placed).columns()
    (own,) = np.nonzero(share.own)
    found = exposure_of(model, scaler, layers, features, rows[own], counts.placed.at(own)).columns()
    columns = np.zeros((len(counts), found.shape[1]), found.dtype)
    columns[own] = found
    return columns


def _with_exposure(parameters: Parameters) -> Parameters:
    satisfaction = parameters.satisfaction
    return parameters._replace(
        layers=with_exposure(parameters.layers),
        satisfaction=with_exposure(satisfaction) if satisfaction else (),
    )


def _train_reading(
    plan: Plan,
    counts: ClickCounts,
    train: ClickCounts,
    held_out: ClickCounts | None,
    scaler: FeatureScaler,
    start: Parameters,
    progress: bool,
) -> tuple[Parameters, list[Epoch]]:
    """Networks of relevance and, where there is that channel, of satisfaction."""
    clicks, seed = CLICK_MODELS[plan.click_model], plan.training.seed
    log = (
        counts if train is not counts or held_out is None else ClickCounts.concat([train, held_out])
    )
    known, outcomes = complete_log(log, start, clicks, plan.anchor, seed)
    completed = CLICK_MODELS["cascade"]
    assert isinstance(plan.objective, EpistemicObjective)
    objective = replace(plan.objective, clicks=completed, anchor=0)
    # shapes, if any, are those of the log itself, not of its outcomes
    own = replace(plan, objective=objective, anchor=0, click_model="cascade", shapes=None)
    networks: list[Layers] = []
    history: list[Epoch] = []
    kinds = [outcomes.clicks]
    if SATISFACTION in clicks.channels:
        kinds.append(outcomes.satisfaction)
    for outcome in kinds:
        parts = [
            None if part is None else outcome.subset(part.numbers_in(outcome))
            for part in (train, held_out)
        ]
        assert parts[0] is not None
        first = _start(own, parts[0], len(scaler.mean))
        trained = _train(own, parts[0], parts[1], scaler, None, [first], None, False, progress)
        networks.append(trained.networks[0].layers)
        history = history or list(trained.history)
    satisfaction = networks[1] if len(networks) > 1 else ()
    return Parameters(networks[0], known.position, satisfaction), history


def _train(
    plan: Plan,
    train: ClickCounts,
    held_out: ClickCounts | None,
    scaler: FeatureScaler | None,
    weight: np.ndarray | None,
    starts: Sequence[Parameters],
    saved: Checkpoint | None,
    resume: bool,
    progress: bool,
    processes: Collective = ALONE,
) -> Trained:
    """Parameters of each network after training by mini-batches."""
    batch_size = pairs_per_batch(plan, len(train))
    shapes, valid_shapes = plan.shapes or (None, None)
    affine = CLICK_MODELS[plan.click_model].is_affine
    # alone, a fit has no need of the arithmetic of several processes, which takes longer
    divided = processes is not ALONE and plan.objective.is_point and shapes is None
    pairs = PairSet.of(
        train,
        scaler,
        batch_size,
        weight=weight,
        shapes=shapes,
        affine=affine,
        share=Share.of(train, processes, shards_of(batch_size)) if divided else None,
    )
    valid = None
    if held_out is not None:
        share = Share.of(held_out, processes) if divided else None
        valid = PairSet.of(
            held_out, scaler, batch_size, shapes=valid_shapes, affine=affine, share=share
        )
    with TrainingBar(plan.training.epochs, len(pairs.batches), shown=progress) as bar:
        training = Training(
            plan.objective,
            starts,
            pairs,
            valid,
            plan.training,
            keep=saved.keep if saved and not processes.rank else None,
            progress=bar,
        )
        state = training.start()
        if resume and saved is not None:
            state = saved.load(state, processes)
            bar.resume(len(state.history))
        state = training.run(state)
    return Trained(state.best, state.history, state.best_epoch)


def _hold_out(
    plan: Plan, counts: ClickCounts, valid: ClickCounts | None
) -> tuple[ClickCounts, ClickCounts | None]:
    """Pairs for training, and pairs for early stopping or None."""
    if valid is not None:
        shared = int(is_among("query_id", valid.query_id.unique(), counts.query_id.unique()).sum())
        if shared:
            _warn(
                f"{shared:,} queries of the validation set are in the training set too, so its "
                "likelihood does not measure predictions for new queries; split by query"
            )
        _check_features(counts, valid)
        return counts, _with_contexts_of(counts, valid)
    if plan.holdout and counts.num_queries > 1:
        shares = (1 - plan.holdout, plan.holdout)
        try:
            train, held_out = counts.split(*shares, by="query", seed=plan.training.seed)
        except InputError:
            _warn(f"{counts.num_queries:,} queries are too few to hold some out for validation")
        else:
            return train, held_out
    return counts, None


def _encoding(train: ClickCounts, init: FittedModel | None) -> FeatureEncoding | None:
    """How features become numbers, as in the model to start from; None if they are numbers."""
    if train.features is None:
        return None
    if init is None or init.features is None:
        return train.features.learn_encoding(rows_for_scale(train))
    is_plain = init.features.encoding is None and train.features.is_plain
    return None if is_plain else init.features.how


def _encoded(counts: ClickCounts, encoding: FeatureEncoding) -> ClickCounts:
    assert counts.features is not None
    return replace(counts, features=counts.features.encoded(encoding))


def _explained(clicks: ClickModel, counts: ClickCounts) -> ClickCounts:
    """The counts without clicks that the click model gives probability 0, with a warning.

    Where it says that nothing was examined, a display has no information on relevance.
    """
    size = len(counts.contexts)
    emission = clicks.emission(np.zeros(clicks.size(size)), None, np)
    impossible = emission.attractive[counts.context] == 0
    lost = int(counts.clicks[impossible].sum())
    if emission.is_affine or not lost:
        return counts
    _warn(
        f"{lost:,} of {counts.total_clicks:,} clicks have probability 0 in a {clicks.title}, which "
        "knows no click below the first one of a page; they are left out of the fit. Compare it "
        "with other click models"
    )
    # conversions have a model of their own, which has all clicks
    return replace(
        counts,
        clicks=np.where(impossible, 0, counts.clicks),
        conversions=None,
        clusters=(
            None
            if counts.clusters is None
            else counts.clusters.without_clicks(emission.attractive == 0)
        ),
    )


def _with_usable_clusters(plan: Plan, counts: ClickCounts) -> ClickCounts:
    """The counts without clusters that cannot be used; refuses those that were asked for."""
    clicks, clusters, asked = CLICK_MODELS[plan.click_model], counts.clusters, counts.options
    is_asked = asked.cluster not in ("auto", "query")
    named = f"--cluster {asked.cluster} (in Python: cluster='{asked.cluster}')"
    if plan.posterior is None or clicks.has_latent_state:
        if is_asked:
            who = (
                f"those of a {clicks.title} are between queries"
                if clicks.has_latent_state
                else f"a {plan.kind} with these settings has none"
            )
            raise InputError(
                f"{named} chooses the clusters of robust intervals, and {who}; leave it out",
                code="option-does-not-apply",
            )
        return replace(counts, clusters=None)
    if is_asked and clusters is None:
        raise InputError(
            f"{named}: these counts were not counted by that; count the log itself again, with it",
            code="no-clusters",
        )
    if is_asked and clusters is not None and clusters.groups < 2:
        raise InputError(
            f"{named}: all rows of the log have the same value, and uncertainty is estimated from "
            "differences between clusters; name another column, or leave it out",
            code="one-cluster",
        )
    return counts if clusters is None or clusters.groups > 1 else replace(counts, clusters=None)


def _check_features(train: ClickCounts, valid: ClickCounts) -> None:
    """Require the same features in the training and the validation set."""
    names = [None if c.features is None else c.features.names for c in (train, valid)]
    if names[0] != names[1]:
        described = ["none" if n is None else f"{len(n)} ({', '.join(n[:3])} ...)" for n in names]
        raise InputError(
            f"the training set has other features than the validation set: {described[0]} against "
            f"{described[1]}. Join both with the same feature table",
            code="feature-mismatch",
        )


def _with_contexts_of(train: ClickCounts, valid: ClickCounts) -> ClickCounts:
    """The validation set with its contexts numbered as in the training set."""
    names = train.contexts.column_names
    if valid.contexts.column_names != names:
        raise InputError(
            f"contexts are {', '.join(names)} in the training set but "
            f"{', '.join(valid.contexts.column_names)} in the validation set; count both by the "
            "same",
            code="context-mismatch",
        )
    index = locate_rows(*({name: c.contexts[name] for name in names} for c in (valid, train)))
    unknown = np.unique(valid.context[index[valid.context] < 0])
    if len(unknown):
        raise InputError(
            "the validation set shows items where the training set never does: "
            f"{named(valid.contexts, unknown[:5].tolist())}. Leave these rows out with --where, or "
            "validate on a log with the same contexts",
            code="unknown-context",
        )
    return replace(valid, contexts=train.contexts, context=index[valid.context])


def pairs_per_batch(plan: Plan, pairs: int) -> int:
    """Most pairs in a batch: as configured, but fewer for small logs, for several steps per epoch.

    Where position bias is a Beta its width depends on the batch size, which is then not changed.
    """
    if not plan.objective.is_point:
        return plan.training.batch_size
    return min(plan.training.batch_size, -(-pairs // LEAST_STEPS))


def _starts(
    plan: Plan, train: ClickCounts, width: int, init: FittedModel | None
) -> list[Parameters]:
    """Initial parameters of the model's own network, then of the members of an ensemble.

    Members start from those of `init` if it has the same number, else at random.
    """
    starts = [_start(plan, train, width, i) for i in range(plan.training.networks)]
    if init is not None:
        before = (init.parameters, *init.members)
        if init.features is not None and init.features.exposure is not None:
            before = tuple(
                own._replace(layers=without_exposure(own.layers), satisfaction=()) for own in before
            )
        for i, own in enumerate(before if len(before) == len(starts) else before[:1]):
            starts[i] = warm_start(replace(init, parameters=own), starts[i], train)
    if plan.known is not None:
        starts = [_as_known(start, plan.known) for start in starts]
    return starts


def _as_known(start: Parameters, known: KnownBias) -> Parameters:
    """The parameters with position bias at its known values."""
    logit = start.position.points.logit
    given = np.isfinite(known.mean)
    return start._replace(position=PointLookup(np.where(given, known.mean, logit)))


def _start(plan: Plan, train: ClickCounts, width: int, network: int = 0) -> Parameters:
    """Initial parameters: a random network, and position bias from click rates."""
    displays, clicks = (
        np.bincount(train.context, amount, len(train.contexts))
        for amount in (train.displays, train.clicks)
    )
    with np.errstate(invalid="ignore"):
        rate = clicks / displays
    position: Lookup = init_betas(len(train.contexts))
    mean = 0.5
    if plan.objective.is_point:
        position = PointLookup(CLICK_MODELS[plan.click_model].start(rate, plan.anchor))
        mean = float(
            np.clip(np.nanmax(rate if plan.anchor is None else rate[plan.anchor]), 0.01, 0.9)
        )
    rng = np.random.default_rng([plan.training.seed, 0, *([network] if network else [])])
    head = HEADS[plan.head]
    layers = head.first_layers(rng, width, plan.hidden, mean=mean, wide=plan.wide)
    return Parameters(layers, position)


def _gather(
    plan: Plan,
    counts: ClickCounts,
    train: ClickCounts,
    held_out: ClickCounts | None,
    trained: Trained,
    scaler: FeatureScaler | None,
) -> FittedModel:
    """The fitted model, before its posterior and checks."""
    history = pd.DataFrame([row.record() for row in trained.history])
    best = trained.history[trained.best_epoch - 1]
    features = None
    if scaler is not None and train.features is not None:
        encoder = train.features.encoder
        encoding = None if encoder is None else encoder.encoding
        features = FeatureSpec(train.features.names, scaler, encoding=encoding)
    summary = TrainingSummary(
        pairs=len(train),
        displays=train.total_displays,
        clicks=train.total_clicks,
        epochs=len(trained.history),
        best_epoch=trained.best_epoch,
        seconds=trained.history[-1].seconds,
        log_likelihood=best.log_likelihood if best.validation is None else best.validation,
        history=history,
    )
    distinct = [None if c is None else c.query_id.unique() for c in (train, held_out)]
    return FittedModel(
        kind=plan.kind,
        head=plan.head,
        settings=plan.settings,
        parameters=trained.networks[0],
        anchor=plan.anchor,
        contexts=train.contexts,
        features=features,
        options=counts.options,
        queries=QuerySets(
            distinct[0], train.query_id.slice(0, 0) if distinct[1] is None else distinct[1]
        ),
        items=None,
        training=summary,
        members=tuple(trained.networks[1:]),
        click_model=plan.click_model,
    )


def _items(
    fitted: FittedModel, counts: ClickCounts, level: float, processes: Collective
) -> Items | None:
    """For a model without features, relevance of all pairs of the log given their clicks."""
    if fitted.features is not None:
        return None
    return known_items(fitted, counts, level, processes)


def _digest(counts: ClickCounts, valid: ClickCounts | None, init: FittedModel | None) -> str:
    """A digest of all data that a run depends on."""
    parts = [digest_counts(each) for each in (counts, valid) if each is not None]
    if init is not None:
        start = [leaf for own in (init.parameters, *init.members) for leaf in leaves(own)]
        parts += [digest_settings([np.asarray(leaf).tolist() for leaf in start])]
    return "-".join(parts)


def _dependencies(plan: Plan) -> tuple[Any, ...]:
    """All settings that a run depends on."""
    known = None if plan.known is None else [values.tolist() for values in plan.known]
    network = (plan.objective, plan.click_model, plan.head, plan.hidden)
    return (*network, plan.training, plan.anchor, plan.holdout, known)


def _warn(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=4)

"""The contents of a fitted model, and the names of model classes, heads and interval kinds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.click_models.click_model import ClickModel, given_contexts
from epiclick.click_models.registry import CLICK_MODELS, REGISTRY
from epiclick.data.feature_encoding import FeatureEncoding
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.fitted.exposure import COLUMNS, ExposureModel
from epiclick.fitted.parameters import ParameterPosterior, Parameters
from epiclick.fitted.revenue import Revenue
from epiclick.relevance.heads import HEADS, ID_BETA, NETWORK_BETA, POINT, RelevanceHead

HEADS_OF: Mapping[str, tuple[str, ...]] = {
    **{entry.public: (NETWORK_BETA.name, ID_BETA.name) for entry in REGISTRY.values()},
    "PointwisePBM": (POINT.name,),
}
"""Relevance heads of each class: with features, and without if it supports that."""


def head_of(kind: str, *, with_features: bool) -> str:
    """The relevance head of a class, with or without features; "" for an unknown class."""
    heads = HEADS_OF.get(kind, ("",))
    return heads[0] if with_features else heads[-1]


@dataclass(frozen=True, eq=False)
class FeatureSpec:
    """The features a model was trained on.

    Attributes:
        names: one name per feature, in the network's order; of encoded ones, see `encoding`.
        scaler: how they are scaled.
        exposure: what they suggest about exposure, if the network takes it; else None.
        encoding: how columns of a table become features, where some are categories or may be
            missing; None if all are numbers, column by column.
    """

    names: tuple[str, ...]
    scaler: FeatureScaler
    exposure: ExposureModel | None = None
    encoding: FeatureEncoding | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a table that the model needs."""
        return self.names if self.encoding is None else tuple(self.encoding.columns)

    @cached_property
    def how(self) -> FeatureEncoding:
        """How later tables are read."""
        return self.encoding or FeatureEncoding.plain(self.names)

    @property
    def width(self) -> int:
        """Number of inputs of the network."""
        return len(self.names) + (0 if self.exposure is None else COLUMNS)


@dataclass(frozen=True, eq=False)
class QuerySets:
    """Queries that a fit used, to tell later whether an evaluation is out of sample.

    Attributes:
        train: distinct query ids of the training pairs, ascending.
        held_out: distinct query ids used only for early stopping, ascending.
    """

    train: pa.Array
    held_out: pa.Array


ITEM_NUMBERS = ("alpha", "beta", "low", "high")
"""Names of the numeric columns of `Items`."""


@dataclass(frozen=True, eq=False)
class Items:
    """Relevance of the pairs of the training log given their own clicks, in (query, doc) order.

    Stored for models without features, which cannot tell pairs apart otherwise.

    Attributes:
        query_id: (pairs,) int64 or string.
        doc_id: (pairs,) int64 or string.
        alpha: (pairs,) alpha of the Beta with the posterior's mean and variance.
        beta: (pairs,) beta of the same.
        low: (pairs,) lower end of the posterior's central interval.
        high: (pairs,) upper end.
        satisfied: (pairs, 2) alpha and beta of the probability that a click satisfies, for click
            models with that channel; else None.
    """

    query_id: pa.Array
    doc_id: pa.Array
    alpha: np.ndarray
    beta: np.ndarray
    low: np.ndarray
    high: np.ndarray
    satisfied: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class TrainingSummary:
    """Summary of a training run.

    Attributes:
        pairs: number of training pairs.
        displays: their displays.
        clicks: their clicks.
        epochs: epochs trained.
        best_epoch: the epoch whose parameters were kept.
        seconds: duration of the training.
        log_likelihood: per display, of the held-out pairs, or of the training pairs without any.
        history: one row per epoch: epoch, log_likelihood, validation, zero_gradients, seconds, and
            for an ensemble members_log_likelihood, members_validation, the means over its members.
        checks: results of the checks of data and fit: `chi2_per_df`, `identifiability`, ...
        warnings: messages for the user.
    """

    pairs: int
    displays: int
    clicks: int
    epochs: int
    best_epoch: int
    seconds: float
    log_likelihood: float
    history: pd.DataFrame
    checks: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted click model.

    Attributes:
        kind: name of the public class, such as "EpistemicPBM"; `head` and `click_model` define its
            behaviour.
        head: name of the relevance head, a key of `HEADS`.
        settings: its constructor's parameters; JSON-able values only.
        parameters: network and click model's lookup, numpy arrays.
        anchor: index of the context whose bias is 1, None for a free scale.
        contexts: (contexts, columns) table of the contexts that have a bias.
        features: names and scaling of the network's inputs; None for a model without features.
        options: how the training log was read.
        queries: queries used for training and validation.
        items: relevance of the training pairs, for models without features.
        training: summary of the training run.
        posterior: posterior of the click model's parameters and the network's last layer; None for
            the paper's estimators and for pointwise models.
        members: networks of an ensemble; empty without one.
        click_model: name of the click model, a key of `CLICK_MODELS`.
        conversion: the model of conversions after clicks, whose relevance is the probability of
            one: a cascade model of `conversion_counts`. None if the log was read without any.
        revenue: value of these conversions; None if it was not counted.
    """

    kind: str
    head: str
    settings: Mapping[str, Any]
    parameters: Parameters
    anchor: int | None
    contexts: pa.Table
    features: FeatureSpec | None
    options: LogOptions
    queries: QuerySets
    items: Items | None
    training: TrainingSummary
    posterior: ParameterPosterior | None = None
    members: tuple[Parameters, ...] = ()
    click_model: str = "pbm"
    conversion: "FittedModel | None" = None
    revenue: Revenue | None = None

    @property
    def relevance_head(self) -> RelevanceHead:
        """The relevance head."""
        return HEADS[self.head]

    @property
    def iteration(self) -> str:
        """What `training.epochs` counts: epochs or, without features, steps to the mode."""
        return "step" if self.posterior is not None and self.features is None else "epoch"

    @property
    def clicks(self) -> ClickModel:
        """The click model."""
        return CLICK_MODELS[self.click_model]


def history_of(fitted: FittedModel) -> tuple[str, ...]:
    """The context columns of a model that are outcomes of the page, such as the last click."""
    return fitted.clicks.history


def given_of(fitted: FittedModel) -> tuple[pa.Table, np.ndarray]:
    """The given contexts of a model, in order, and the index of each context's own, (contexts,)."""
    return given_contexts(fitted.contexts, history_of(fitted))


def conversion_of_items(fitted: FittedModel) -> Items | None:
    """Conversions of the items that a model keeps, in the same order; None if it has none."""
    return None if fitted.conversion is None else fitted.conversion.items

"""Names of the kinds of models, and of the ways in which they can be unsure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.click_models.click_model import ClickModel, given_contexts
from epiclick.click_models.registry import CLICK_MODELS, REGISTRY
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.fitted.parameters import ParameterPosterior, Parameters
from epiclick.relevance.heads import HEADS, ID_BETA, NETWORK_BETA, POINT, RelevanceHead

HEADS_OF: Mapping[str, tuple[str, ...]] = {
    **{home.public: (NETWORK_BETA.name, ID_BETA.name) for home in REGISTRY.values()},
    "PointwisePBM": (POINT.name,),
}
"""Relevance heads that a class has: with features, and without where it can do without."""

BiasKind = Literal["robust", "bayes", "evidential"]
"""Intervals of position bias; see `bias_table.position_bias_table`."""

ThetaPosterior = Literal["laplace", "nuts"]
"""How the posterior of position bias and last layer is found after a `marginal` fit."""


def head_of(kind: str, *, with_features: bool) -> str:
    """The relevance head of a class, given features or not; "" for an unknown class."""
    heads = HEADS_OF.get(kind, ("",))
    return heads[0] if with_features else heads[-1]


@dataclass(frozen=True, eq=False)
class FeatureSpec:
    """The features a model was trained on.

    Attributes:
        names: one name per feature, in the network's order.
        scaler: how they are scaled.
    """

    names: tuple[str, ...]
    scaler: FeatureScaler


@dataclass(frozen=True, eq=False)
class QuerySets:
    """Queries the fit has seen, so that later scores can be labelled.

    Attributes:
        train: distinct query ids that were learned from, ascending.
        held_out: distinct query ids used for early stopping only, ascending.
    """

    train: pa.Array
    held_out: pa.Array


ITEM_NUMBERS = ("alpha", "beta", "low", "high")
"""The numbers of `Items`, as they are stored."""


@dataclass(frozen=True, eq=False)
class Items:
    """Relevance of the pairs of the training log given their own clicks, in (query, doc) order.

    Kept by models without features, whose network says the same of every pair.

    Attributes:
        query_id: (pairs,) int64 or string.
        doc_id: (pairs,) int64 or string.
        alpha: (pairs,) of the Beta with the posterior's mean and variance.
        beta: (pairs,) likewise.
        low: (pairs,) lower end of the posterior's central interval.
        high: (pairs,) upper end.
    """

    query_id: pa.Array
    doc_id: pa.Array
    alpha: np.ndarray
    beta: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class TrainingSummary:
    """How a fit came about.

    Attributes:
        pairs: pairs learned from.
        displays: their displays.
        clicks: their clicks.
        epochs: epochs trained.
        best_epoch: the one whose parameters were kept.
        seconds: time it took.
        log_likelihood: per display, of the held-out pairs, or of the training pairs without any.
        history: one row per epoch: epoch, log_likelihood, validation, zero_gradients, seconds, and
            of an ensemble members_log_likelihood, members_validation, the means over its members.
        checks: what the checks of data and fit found: `chi2_per_df`, `identifiability`, ...
        warnings: what the user should know, in words.
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
    """A fitted position-based model.

    Attributes:
        kind: name of the class that was fitted, "EpistemicPBM" or "PointwisePBM"; what it means is
            said by `head` and `click_model`.
        head: name of the relevance head, a key of `HEADS`.
        settings: its constructor's parameters; JSON-able values only.
        parameters: network and position lookup, numpy arrays.
        anchor: index of the context whose bias is 1, None for a free scale.
        contexts: (contexts, columns) table of the contexts that have a bias.
        features: what the network takes; None for a model without features.
        options: how the training log was read.
        queries: whose clicks were used.
        items: relevance of the training pairs, for models without features.
        training: how the fit came about.
        posterior: how sure the fit is of position bias and the network's last layer; None for the
            paper's estimators and for pointwise models.
        members: an ensemble, each trained on a bootstrap of the queries; none unless asked for.
        click_model: name of the click model, a key of `CLICK_MODELS`.
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

    @property
    def relevance_head(self) -> RelevanceHead:
        """How relevance follows from the network's outputs."""
        return HEADS[self.head]

    @property
    def clicks(self) -> ClickModel:
        """What decides whether a user looks and clicks."""
        return CLICK_MODELS[self.click_model]


def history_of(fitted: FittedModel) -> tuple[str, ...]:
    """The context columns of a model that are outcomes of the page, such as its last click."""
    return fitted.clicks.history


def given_of(fitted: FittedModel) -> tuple[pa.Table, np.ndarray]:
    """The given contexts of a model, in order, and (contexts,) which of them each context has."""
    return given_contexts(fitted.contexts, history_of(fitted))

"""Hand-made models with uncertain parameters, items to predict, and brute force."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from scipy.special import expit

import epiclick as ec
from epiclick.click_models.pbm import PositionBased
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.fitted.parameters import (
    BetaLookup,
    DrawnLayer,
    ParameterPosterior,
    Parameters,
    PointLookup,
    from_vector,
    to_vector,
)
from epiclick.fitted.state import FeatureSpec, FittedModel, QuerySets, TrainingSummary, head_of
from epiclick.relevance.network import init_mlp

from .conftest import history

POSITIONS, FEATURES = 4, 3
LOGITS = np.array([9.0, 0.5, -0.5, -1.0])  # of position bias; the first is the anchor


def by_features(spread: float = 0.3, *, kind: str = "EpistemicPBM") -> FittedModel:
    """A network of two layers; `spread` is the standard deviation of all its parameters."""
    rng = np.random.default_rng(1)
    outputs = 2 if kind == "EpistemicPBM" else 1
    layers = init_mlp(rng, (FEATURES, 6, outputs))
    own = Parameters(layers, PointLookup(LOGITS))
    features = FeatureSpec(
        tuple(f"f{i}" for i in range(FEATURES)),
        FeatureScaler(np.zeros(FEATURES), np.ones(FEATURES)),
    )
    made = _model(kind, own, features)
    return made if kind == "PointwisePBM" else _uncertain(made, spread)


def by_ids(spread: float = 0.3) -> FittedModel:
    """A model without features, of one layer."""
    rng = np.random.default_rng(2)
    layer = (rng.normal(0, 0.5, (POSITIONS, 2)).astype(np.float32), np.array([-0.5, 1.0]))
    return _uncertain(
        _model("EpistemicPBM", Parameters((layer,), PointLookup(LOGITS)), None), spread
    )


def with_members(fitted: FittedModel, count: int = 5) -> FittedModel:
    """An ensemble of networks with nothing in common."""
    rng = np.random.default_rng(3)
    sizes = (FEATURES, 6, len(fitted.parameters.layers[-1][1]))
    members = tuple(
        Parameters(init_mlp(rng, sizes), PointLookup(LOGITS + rng.normal(0, 0.3, POSITIONS)))
        for _ in range(count)
    )
    return replace(fitted, members=members)


def with_bias_betas(fitted: FittedModel) -> FittedModel:
    """The model with a Beta for every position, as of the paper's estimators."""
    lookup = BetaLookup(LOGITS, np.full(POSITIONS, 20.0))
    return replace(
        fitted, parameters=fitted.parameters._replace(position=lookup), anchor=None, posterior=None
    )


def model_of(fitted: FittedModel, level: float = 0.9) -> ec.EpistemicPBM | ec.PointwisePBM:
    """The public model."""
    model = getattr(ec, fitted.kind)(level=level)
    model.fitted_ = fitted
    return model


def items(queries: int, docs: int, seed: int = 4) -> ec.FeatureTable:
    """Features of the docs of some queries."""
    rng = np.random.default_rng(seed)
    query, doc = (each.ravel() for each in np.indices((queries, docs)))
    keys = pa.table({"query_id": query, "doc_id": doc})
    matrix = rng.normal(size=(queries * docs, FEATURES)).astype(np.float32)
    return ec.FeatureTable(keys, tuple(f"f{i}" for i in range(FEATURES)), matrix)


def clicks_on(table: ec.FeatureTable, most: int, seed: int = 5) -> ec.ClickCounts:
    """Every item shown 1 to `most` times, with few clicks."""
    rng = np.random.default_rng(seed)
    total = np.exp(rng.uniform(0, np.log(most), len(table))).astype(int)
    displays = rng.multinomial(total, rng.dirichlet(np.ones(POSITIONS), len(table)))
    clicks = rng.binomial(displays, expit(LOGITS) * rng.beta(1, 3, (len(table), 1)))
    return counts_of(table, displays, clicks)


def counts_of(table: ec.FeatureTable, displays: np.ndarray, clicks: np.ndarray) -> ec.ClickCounts:
    """Counts of (items, positions) displays and clicks, with features."""
    pair, context = np.nonzero(displays)
    return ec.ClickCounts(
        query_id=table.keys["query_id"].combine_chunks(),
        doc_id=table.keys["doc_id"].combine_chunks(),
        contexts=pa.table({"position": np.arange(1, POSITIONS + 1)}),
        pair=pair,
        context=context,
        displays=displays[pair, context],
        clicks=clicks[pair, context],
        features=table,
        feature_row=np.arange(len(table)),
    )


def betas_by(
    fitted: FittedModel, draw: Parameters, x: np.ndarray, smooth: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of each row of features, by the network in float64.

    The confidence of a draw is on a logarithmic scale around the one at the draws' centre.
    """
    if fitted.features is not None:
        x = np.sign(x) * np.log1p(abs(x))
    for weight, bias in draw.layers[:-1]:
        x = np.maximum(x.astype(np.float64) @ weight + bias, 0)
    raw = x.astype(np.float64) @ draw.layers[-1][0] + draw.layers[-1][1]
    if isinstance(draw.layers[-1], DrawnLayer):
        weight, bias = draw.layers[-1].centre
        centre = x.astype(np.float64) @ weight[:, 1] + bias[1]
        scale = np.log1p(np.exp(centre)) * (1 + np.exp(-centre))
        raw[:, 1] = centre + scale * (np.exp((raw[:, 1] - centre) / scale) - 1)
    nu = 1 + (np.log1p(np.exp(raw[:, 1])) if smooth else abs(raw[:, 1]))
    return expit(raw[:, 0]) * nu, expit(-raw[:, 0]) * nu


def theta_by(fitted: FittedModel, draw: Parameters) -> np.ndarray:
    """Position bias of a draw."""
    theta = expit(np.asarray(draw.position.logit))
    if fitted.anchor is not None:
        theta[fitted.anchor] = 1
    return theta


def _uncertain(fitted: FittedModel, spread: float) -> FittedModel:
    mode = to_vector(fitted.parameters, PositionBased(), fitted.anchor)
    covariance = spread**2 * np.eye(len(mode))
    return replace(
        fitted,
        parameters=from_vector(fitted.parameters, PositionBased(), fitted.anchor, mode),
        posterior=ParameterPosterior(mode, covariance / 4, covariance, None, 0.0),
    )


def _model(kind: str, own: Parameters, features: FeatureSpec | None) -> FittedModel:
    nobody = pa.array([], pa.int64())
    return FittedModel(
        kind=kind,
        head=head_of(kind, with_features=features is not None),
        settings={},
        parameters=own,
        anchor=0,
        contexts=pa.table({"position": np.arange(1, POSITIONS + 1)}),
        features=features,
        options=LogOptions(),
        queries=QuerySets(nobody, nobody),
        items=None,
        training=TrainingSummary(0, 0, 0, 0, 0, 0.0, 0.0, history([])),
    )

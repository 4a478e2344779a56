"""Hand-made models whose network passes features on, logs and rankings for them, and oracles."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.special import expit, logit

import epiclick as ec
from epiclick.click_models.pbm import PositionBased
from epiclick.comparison.rankings import Ranking
from epiclick.comparison.slots import Slots
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.fitted.parameters import (
    ParameterPosterior,
    Parameters,
    PointLookup,
    from_vector,
    to_vector,
)
from epiclick.fitted.state import FeatureSpec, FittedModel, QuerySets, TrainingSummary

THETA = np.array([1.0, 0.6, 0.4, 0.25])
WIDEST = 5.0  # keeps features within the scaler's range
DEVICES = ("phone", "tv")
MEAN, NU = 0.3, 4.0  # of relevance, by a model without features


def planted(
    *,
    theta_sd: float = 0.2,
    mean_sd: float = 0.3,
    features: bool = True,
    devices: bool = False,
    theta: np.ndarray = THETA,
) -> FittedModel:
    """A model of known relevance; standard deviations of bias and of the common mean in logits."""
    position = np.tile(np.arange(1, len(theta) + 1), len(DEVICES) if devices else 1)
    contexts = {"position": position}
    if devices:
        # the second device's bias is the square of the first one's
        contexts = {
            "device": pa.array(np.repeat(DEVICES, len(theta)), pa.large_string())
        } | contexts
        theta = np.concatenate([theta, theta**2])
    if features:
        layer = (WIDEST * np.eye(2), np.zeros(2))
        spec = FeatureSpec(("f0", "f1"), FeatureScaler(np.zeros(2), np.ones(2)))
    else:
        layer = (np.zeros((len(theta), 2)), np.array([logit(MEAN), np.log(np.expm1(NU - 1))]))
        spec = None
    nobody = pa.array([], pa.int64())
    made = FittedModel(
        kind="EpistemicPBM",
        head="id_beta" if spec is None else "network_beta",
        settings={},
        parameters=Parameters((layer,), PointLookup(logit(np.clip(theta, None, 1 - 1e-9)))),
        anchor=0,
        contexts=pa.table(contexts),
        features=spec,
        options=LogOptions(context=tuple(contexts)),
        queries=QuerySets(nobody, nobody),
        items=None,
        training=TrainingSummary(0, 0, 0, 0, 0, 0.0, 0.0, pd.DataFrame()),
    )
    mode = to_vector(made.parameters, PositionBased(), made.anchor)
    sd = np.zeros(len(mode))
    sd[: len(theta) - 1], sd[-2] = theta_sd, mean_sd
    covariance = np.diag(sd**2)
    return replace(
        made,
        parameters=from_vector(made.parameters, PositionBased(), made.anchor, mode),
        posterior=ParameterPosterior(mode, covariance, covariance, None, 0.0),
    )


def model_of(fitted: FittedModel, level: float = 0.9) -> ec.EpistemicPBM:
    """The model as users have it."""
    model = ec.EpistemicPBM(level=level)
    model.fitted_ = fitted
    return model


def theta_by(fitted: FittedModel, draw: Parameters) -> np.ndarray:
    """Position bias under a draw."""
    theta = expit(np.asarray(draw.position.logit))
    theta[fitted.anchor] = 1
    return theta


def betas_by(draw: Parameters, mean: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta under a draw for items of a given mean and confidence, features or not."""
    moved = draw.layers[-1][1][0] - (0 if len(draw.layers[-1][0]) == 2 else logit(MEAN))
    mean = expit(logit(mean) + moved)
    return mean * nu, (1 - mean) * nu


def posterior_moments(
    alpha: float, beta: float, theta: np.ndarray, displays: np.ndarray, clicks: np.ndarray
) -> tuple[float, float]:
    """Mean and variance of relevance given clicks, on a grid."""
    u = np.linspace(-25, 15, 8001)
    zeta = expit(u)
    log_f = (alpha + clicks.sum()) * np.log(zeta) + beta * np.log(expit(-u))
    for bias, shown, clicked in zip(theta, displays, clicks, strict=True):
        log_f = log_f + (shown - clicked) * np.log1p(-bias * zeta * (1 - 1e-15))
    weight = np.exp(log_f - log_f.max())
    weight /= weight.sum()
    mean = (weight * zeta).sum()
    return mean, (weight * (zeta - mean) ** 2).sum()


def table_of(query, doc, mean: np.ndarray, nu: np.ndarray) -> ec.FeatureTable:
    """Features that the planted network turns into relevance of this mean and confidence."""
    answers = np.stack([logit(mean), np.log(np.expm1(nu - 1))], axis=1) / WIDEST
    raw = np.copysign(np.expm1(abs(answers)), answers)  # the scaler's inverse
    keys = pa.table({"query_id": query, "doc_id": doc})
    return ec.FeatureTable(keys, ("f0", "f1"), raw.astype(np.float32))


def rows_of(lists: dict, positions: Sequence[str] = ("query_id",)) -> pd.DataFrame:
    """A ranking from key -> docs; `positions` are the columns of the key."""
    rows = [
        (*(key if isinstance(key, tuple) else (key,)), doc, position)
        for key, docs in lists.items()
        for position, doc in enumerate(docs, 1)
    ]
    return pd.DataFrame(rows, columns=[*positions, "doc_id", "position"])


def list_queries(ranking: Ranking) -> list:
    """Query of each list of a ranking."""
    return [ranking.query_id[int(i)].as_py() for i in np.unique(ranking.page, return_index=True)[1]]


def slots_by_hand(
    ranker, item, position, *, weight=None, reach=None, context=None, queries: int = 1
) -> Slots:
    """Slots with made-up ids."""
    ranker, item, position = (np.asarray(each) for each in (ranker, item, position))
    return Slots(
        ranker=ranker,
        page=np.cumsum(np.r_[0, (np.diff(ranker) != 0) | (np.diff(position) <= 0)]),
        query_id=pa.array(np.zeros(len(item), int)),
        doc_id=pa.array(item),
        given=position - 1 if context is None else context,
        position=position,
        weight=np.ones(len(item)) if weight is None else weight,
        reach=np.ones(len(item)) if reach is None else reach,
        queries=queries,
        notes=(),
    )

"""Worlds in which all that clicks depend on is drawn from the model's own prior.

The body of the network, features and pages are the same in all of them. Position bias and the last
layer come from the prior that the posterior step assumes, relevance from the Betas they give.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import special

from epiclick.beta import Beta
from epiclick.calibration.families import OWN_PRIOR_NAME, Family
from epiclick.calibration.worlds import world_seed
from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.scaler import FeatureScaler
from epiclick.models.parameters import Parameters
from epiclick.models.position import PointLookup
from epiclick.network import given_to_last, init_mlp
from epiclick.relevance.links import betas_of

if TYPE_CHECKING:
    from epiclick.posterior.density import Density
    from epiclick.training.batches import Shapes

POSITIONS = 3
HIDDEN = 8
ANCHOR = 0  # the first position, whose bias is 1

OWN_PRIOR = Family(
    OWN_PRIOR_NAME,
    (1.0, 0.5, 0.5),  # means; drawn for each world
    queries=120,
    docs=6,
    features=6,
    pages=600,
    policy_strength=0.0,
)


@dataclass(frozen=True, eq=False)
class Stage:
    """What all worlds share.

    Attributes:
        start: parameters with the fixed body, from which modes are looked for.
        features: of all pairs.
        scaler: of the features.
        given: (pairs, units + 1) what the last layer is given.
        row: (displays,) pair of each display.
        position: (displays,) where it was, from 0.
        layer_sd: (size of the layer,) of the posterior step's own prior.
        shapes: room for the counts of any clicks.
    """

    start: Parameters
    features: FeatureTable
    scaler: FeatureScaler
    given: np.ndarray
    row: np.ndarray
    position: np.ndarray
    layer_sd: np.ndarray
    shapes: "Shapes"


@dataclass(frozen=True, eq=False)
class OwnWorld:
    """One world: its truth and its clicks.

    Attributes:
        seed: of all that is drawn in it.
        truth: (size,) vector of parameters, as in `ParameterPosterior`.
        logit: (pairs,) of relevance.
        counts: the clicks.
    """

    seed: int
    truth: np.ndarray
    logit: np.ndarray
    counts: ClickCounts


@cache
def stage() -> Stage:
    """The body, features and pages of all worlds, and the prior that follows from them."""
    from epiclick.training.batches import Shapes

    family, rng = OWN_PRIOR, np.random.default_rng(1)
    pairs, pages = family.queries * family.docs, family.pages
    matrix = rng.standard_normal((pairs, family.features), dtype=np.float32)
    keys = pa.table(
        {
            "query_id": np.repeat(np.arange(family.queries), family.docs),
            "doc_id": np.tile(np.arange(family.docs), family.queries),
        }
    )
    features = FeatureTable(keys, tuple(f"f{i}" for i in range(family.features)), matrix)
    scaler = FeatureScaler.fit(matrix)
    body = init_mlp(rng, (family.features, HIDDEN))
    last = np.zeros((HIDDEN, 2)), np.zeros(2)
    start = Parameters((*body, last), PointLookup(np.zeros(POSITIONS)))
    (hidden,) = given_to_last(body, scaler.transform(matrix), HIDDEN)
    # every query has as many pages, so that no item has many displays, and programs stay small
    ranked = rng.random((pages, family.docs)).argsort(axis=1)[:, :POSITIONS]
    row = (np.arange(pages)[:, None] % family.queries * family.docs + ranked).ravel()
    position = np.tile(np.arange(POSITIONS), pages)
    unclicked = count(row, position, np.zeros(len(row)), features)
    # a pair has at most as many unclicked displays as displays: room for every outcome
    need = np.array(Shapes.common([unclicked], 1).capacity)
    room = tuple(int(n) for n in need[::-1].cumsum()[::-1])
    found = Stage(
        start,
        features,
        scaler,
        np.concatenate([hidden.astype(np.float64), np.ones((pairs, 1))], axis=1),
        row,
        position,
        np.empty(0),
        Shapes(1, room),
    )
    return replace(found, layer_sd=density(unclicked, found).prior.layer_sd)


def count(
    row: np.ndarray, position: np.ndarray, click: np.ndarray, features: FeatureTable
) -> ClickCounts:
    """Counts of displays: (displays,) pair, position and click of each."""
    table = features.keys.select(["query_id", "doc_id"]).take(row)
    for name, values in (
        ("position", position + 1),
        ("displays", np.ones(len(row), np.int64)),
        ("clicks", click.astype(np.int64)),
    ):
        table = table.append_column(name, pa.array(values))
    return ClickCounts.from_table(table).with_features(features)


def density(counts: ClickCounts, shared: Stage) -> "Density":
    """The posterior step's own log density of a world's parameters."""
    import jax

    from epiclick.posterior.position import make_density
    from epiclick.training.pairset import PairSet

    pairs = PairSet.of(counts, shared.scaler, len(counts), shapes=shared.shapes)
    with jax.enable_x64(True):
        return make_density(pairs, shared.start, click_model("pbm"), ANCHOR)


def make_own_world(family: Family, seed: int, index: int) -> OwnWorld:
    """The world number `index` under a seed."""
    shared, own = stage(), world_seed(family, seed, index)
    rng = np.random.default_rng([own, 0])
    truth = prior_draws(shared, 1, rng)
    alpha, beta = betas(shared, truth)
    log_relevance, log_rest = Beta(alpha[0], beta[0]).sample_logs(rng, 1)
    theta = np.r_[1.0, special.expit(truth[0, : POSITIONS - 1])]
    probability = theta[shared.position] * np.exp(log_relevance[0])[shared.row]
    click = rng.random(len(probability)) < probability
    counts = count(shared.row, shared.position, click, shared.features)
    return OwnWorld(own, truth[0], (log_relevance - log_rest)[0], counts)


def prior_draws(shared: Stage, number: int, rng: np.random.Generator) -> np.ndarray:
    """(number, size) vectors of parameters: position bias uniform, the last layer Gaussian."""
    theta = rng.uniform(size=(number, POSITIONS - 1))
    layer = shared.layer_sd * rng.standard_normal((number, len(shared.layer_sd)))
    return np.concatenate([special.logit(theta), layer], axis=1)


def raw_outputs(shared: Stage, vectors: np.ndarray) -> np.ndarray:
    """(draws, pairs, 2) mean in logits and raw confidence of each pair, by each vector."""
    layer = vectors[:, POSITIONS - 1 :].reshape(len(vectors), -1, 2)
    return np.einsum("pu,duo->dpo", shared.given, layer)


def betas(shared: Stage, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of relevance, (draws, pairs) each."""
    raw = raw_outputs(shared, vectors)
    return betas_of(raw[..., 0], raw[..., 1], np, smooth=True)

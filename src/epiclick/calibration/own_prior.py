"""Worlds drawn from the model's own prior: ranks of the truth are uniform if posteriors are right.

The body of the network, features and pages are the same in all of them. Position bias and the last
layer come from the prior that the posterior step assumes, relevance from the resulting Betas.

This is simulation-based calibration (Talts et al. 2018): nothing is trained, so that ranks judge
the posterior step alone. The log-likelihood of the clicks is ranked too: it detects a posterior
that ignores them, which ranks of the parameters cannot (Modrák et al. 2023). Values that could be 0
or 1 are ranked as logits, which changes no rank.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import special

from epiclick.beta import Beta
from epiclick.calibration.answers import DRAWS, Answers
from epiclick.calibration.families import OWN_PRIOR_NAME, Family, world_seed
from epiclick.calibration.methods import Method
from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.fitted.parameters import Parameters, PointLookup
from epiclick.relevance.heads import betas_of
from epiclick.relevance.network import given_to_last, init_mlp

if TYPE_CHECKING:
    from epiclick.batching.batches import Shapes
    from epiclick.posterior.density import Density


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
        start: parameters with the fixed body, from which the search for modes starts.
        features: of all pairs.
        scaler: of the features.
        given: (pairs, units + 1) input of the last layer.
        row: (displays,) pair of each display.
        position: (displays,) its position, from 0.
        layer_sd: (size of the layer,) standard deviations of the posterior step's prior.
        shapes: large enough for the counts of any clicks.
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
        seed: of all draws in it.
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
    """The body, features and pages of all worlds, and the prior that they imply."""
    from epiclick.batching.batches import Shapes

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
    # all queries have the same number of pages, so that no item has many displays, which keeps
    # compiled programs small
    ranked = rng.random((pages, family.docs)).argsort(axis=1)[:, :POSITIONS]
    row = (np.arange(pages)[:, None] % family.queries * family.docs + ranked).ravel()
    position = np.tile(np.arange(POSITIONS), pages)
    unclicked = count(row, position, np.zeros(len(row)), features)
    # a pair has at most as many unclicked displays as displays: enough for every outcome
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
    """Counts of displays, given the pair, position and click of each (displays,)."""
    table = features.keys.select(["query_id", "doc_id"]).take(row)
    for name, values in (
        ("position", position + 1),
        ("displays", np.ones(len(row), np.int64)),
        ("clicks", click.astype(np.int64)),
    ):
        table = table.append_column(name, pa.array(values))
    return ClickCounts.from_table(table).with_features(features)


def density(counts: ClickCounts, shared: Stage) -> "Density":
    """The posterior step's log density of a world's parameters."""
    from epiclick.batching.pairset import PairSet
    from epiclick.posterior.laplace import make_density

    pairs = PairSet.of(counts, shared.scaler, len(counts), shapes=shared.shapes)
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


OWN_QUANTITIES = {
    "second_position": "bias of the second position",
    "third_position": "bias of the third position",
    "item_mean": "mean relevance of items with given features",
    "item_confidence": "confidence of that mean",
    "item_relevance": "relevance of an item given its own clicks",
    "log_likelihood": "log-likelihood of all clicks",
}


def from_gaussian(world: OwnWorld, rng: np.random.Generator) -> np.ndarray:
    """Draws from the Gaussian around the mean, as `kind="bayes"` has it."""
    mean, covariance, _ = _posterior(world)
    return rng.multivariate_normal(mean, covariance, DRAWS, method="cholesky")


def from_chain(world: OwnWorld, rng: np.random.Generator) -> np.ndarray:
    """Draws of the log density itself, by a Markov chain."""
    import jax

    from epiclick.calibration.chain import chain_draws

    mean, covariance, own = _posterior(world)
    with jax.enable_x64(True):
        return chain_draws(own, mean, covariance, DRAWS, int(rng.integers(2**31)))


def from_prior(world: OwnWorld, rng: np.random.Generator) -> np.ndarray:
    """Draws of the prior, which ignores the clicks."""
    return prior_draws(stage(), DRAWS, rng)


@lru_cache(maxsize=1)
def _posterior(world: OwnWorld) -> tuple[np.ndarray, np.ndarray, "Density"]:
    """Mode, covariance and log density by a fit's posterior step, started far from the truth."""
    from epiclick.posterior.laplace import find_posterior

    shared = stage()
    own = density(world.counts, shared)
    clicks = own.emitter.clicks
    found = find_posterior(own.pairs, shared.start, clicks, ANCHOR, seed=world.seed).posterior
    return found.mean, found.bayes, own


SAMPLERS: Mapping[str, Callable[[OwnWorld, np.random.Generator], np.ndarray]] = {
    "laplace": from_gaussian,
    "chain": from_chain,
    "prior": from_prior,
}
"""Functions that draw (draws, size) vectors of parameters."""


def answer_own(world: OwnWorld, *, sampler: str, clicks: bool) -> dict[str, Answers]:
    """Truth and draws of `OWN_QUANTITIES`, one value each.

    Args:
        world: the world.
        sampler: how parameters are drawn, a name of `SAMPLERS`.
        clicks: whether the clicks are used; if not, their likelihood is left out.
    """
    shared, rng = stage(), np.random.default_rng([world.seed, 1])
    drawn = SAMPLERS[sampler](world, rng)
    vectors = np.concatenate([world.truth[None], drawn])  # the truth comes first
    item = _most_shown(world.counts)
    pair = int(world.counts.feature_row[item])  # type: ignore[index]
    alpha, beta = (part[:, pair] for part in betas(shared, vectors))
    own = _item_draws(world.counts, item, vectors, alpha, beta, rng) if clicks else None
    if own is None:
        logs = Beta(alpha, beta).sample_logs(rng)
        own = logs[0] - logs[1]
    own[0] = world.logit[pair]
    raw = raw_outputs(shared, vectors)[:, 0]  # the same pair in all worlds
    found = {
        "second_position": vectors[:, 0],
        "third_position": vectors[:, 1],
        "item_mean": raw[:, 0],
        "item_confidence": raw[:, 1],
        "item_relevance": own,
    }
    if clicks:
        found["log_likelihood"] = log_likelihood(world, vectors)
    return {name: Answers.of_draws(each[:1], each[None, 1:]) for name, each in found.items()}


def log_likelihood(world: OwnWorld, vectors: np.ndarray) -> np.ndarray:
    """(draws,) log-probability of the world's clicks by each vector, up to a constant."""
    import jax

    from epiclick.calibration.chain import log_likelihoods

    with jax.enable_x64(True):
        return log_likelihoods(density(world.counts, stage()), vectors)


def _most_shown(counts: ClickCounts) -> int:
    """The first pair with the most displays, whatever its clicks."""
    return int(np.bincount(counts.pair, counts.displays).argmax())


def _item_draws(
    counts: ClickCounts,
    item: int,
    vectors: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(draws,) logits of a pair's relevance given its clicks and each draw of the parameters."""
    from epiclick.click_models.click_model import Emission
    from epiclick.likelihood.closed_form import forms, mixture_weights

    entries = counts.pair == item
    clicks, displays = counts.clicks[entries], counts.displays[entries]
    order = np.repeat(counts.context[entries], displays - clicks)[None]
    rest = np.concatenate(
        [np.zeros((len(vectors), 1)), special.expit(-vectors[:, : POSITIONS - 1])], axis=1
    )
    first = alpha + clicks.sum()
    weights = np.stack(
        [
            mixture_weights(
                *forms(Emission(1 - own, own)), first[i : i + 1], beta[i : i + 1], order
            )
            for i, own in enumerate(rest)
        ]
    )[:, :, 0]
    below = weights.cumsum(axis=1) < rng.random((len(weights), 1)) * weights.sum(1, keepdims=True)
    number = below.sum(axis=1)
    chosen = Beta(first + number, beta + order.shape[1] - number)
    log_relevance, log_rest = chosen.sample_logs(rng)
    return log_relevance - log_rest


def _method(name: str, description: str, *, clicks: bool = True) -> Method:
    return Method(name, description, partial(answer_own, sampler=name, clicks=clicks))


OWN_METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        _method("laplace", "the posterior step's Gaussian, trusting the model"),
        _method("chain", "a Markov chain on the log density of the posterior step"),
        _method("prior", "the prior, which ignores the clicks: must pass", clicks=False),
    )
}

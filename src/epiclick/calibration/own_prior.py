"""Ranks of the truth in worlds of the model's own prior, uniform if the posterior is right.

Simulation-based calibration (Talts et al. 2018): nothing is trained, so that ranks judge the
posterior step alone. Among what is ranked is the log-likelihood of the clicks: it catches a
posterior that has not looked at them, which all ranks of the parameters would let pass (Modrák et
al. 2023). Values are logits where they could be 0 or 1; their ranks are the same.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from epiclick.beta import Beta
from epiclick.calibration.answers import DRAWS, Answers
from epiclick.calibration.methods import Method
from epiclick.calibration.own_worlds import (
    ANCHOR,
    POSITIONS,
    OwnWorld,
    betas,
    density,
    prior_draws,
    raw_outputs,
    stage,
)
from epiclick.data.counts import ClickCounts

if TYPE_CHECKING:
    from epiclick.posterior.density import Density

OWN_QUANTITIES = {
    "second_position": "bias of the second position",
    "third_position": "bias of the third position",
    "item_mean": "mean relevance of items like a certain one",
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
    """Draws of one who has seen no click."""
    return prior_draws(stage(), DRAWS, rng)


@lru_cache(maxsize=1)
def _posterior(world: OwnWorld) -> tuple[np.ndarray, np.ndarray, "Density"]:
    """Mode, covariance and log density: a fit's posterior step, from a start far from the truth."""
    from epiclick.posterior.position import find_posterior

    shared = stage()
    own = density(world.counts, shared)
    _, found = find_posterior(own.pairs, shared.start, own.emitter.clicks, ANCHOR, seed=world.seed)
    return found.mean, found.bayes, own


WAYS: Mapping[str, Callable[[OwnWorld, np.random.Generator], np.ndarray]] = {
    "laplace": from_gaussian,
    "chain": from_chain,
    "prior": from_prior,
}
"""How (draws, size) vectors of parameters are drawn."""


def answer_own(world: OwnWorld, *, way: str, clicks: bool) -> dict[str, Answers]:
    """Truth and draws of `OWN_QUANTITIES`, one value each.

    Args:
        world: the world.
        way: how parameters are drawn, a name of `WAYS`.
        clicks: whether the clicks are looked at; else nothing is said of their likelihood.
    """
    shared, rng = stage(), np.random.default_rng([world.seed, 1])
    vectors = np.concatenate([world.truth[None], WAYS[way](world, rng)])  # the truth comes first
    item = _most_shown(world.counts)
    pair = int(world.counts.feature_row[item])  # type: ignore[index]
    alpha, beta = (part[:, pair] for part in betas(shared, vectors))
    own = _item_draws(world.counts, item, vectors, alpha, beta, rng) if clicks else None
    if own is None:
        logs = Beta(alpha, beta).sample_logs(rng)
        own = logs[0] - logs[1]
    own[0] = world.logit[pair]
    raw = raw_outputs(shared, vectors)[:, 0]  # of the same pair in all worlds
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
    """The pair with most displays, the first of them; clicks play no part."""
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
    import jax

    from epiclick.click_models.base import Emission

    entries = counts.pair == item
    clicks, displays = counts.clicks[entries], counts.displays[entries]
    order = np.repeat(counts.context[entries], displays - clicks)
    order = np.r_[order, np.full(displays.sum() - len(order), -1)]  # one shape for all clicks
    rest = np.concatenate(
        [np.zeros((len(vectors), 1)), special.expit(-vectors[:, : POSITIONS - 1])], axis=1
    )
    with jax.enable_x64(True):
        emission = Emission(1 - rest, rest)
        mixture = _mixtures()(emission, alpha[:, None], beta[:, None], clicks[None], order[None])
        weights, first, second = (np.asarray(part)[:, 0] for part in mixture)
    below = weights.cumsum(axis=1) < rng.random((len(weights), 1)) * weights.sum(1, keepdims=True)
    chosen = np.arange(len(weights)), below.sum(axis=1)
    log_relevance, log_rest = Beta(first[chosen], second[chosen]).sample_logs(rng)
    return log_relevance - log_rest


@cache
def _mixtures() -> Callable:
    """`exact_posterior` for many draws of the parameters at once."""
    import jax

    from epiclick.likelihood.exact import exact_posterior

    return jax.jit(jax.vmap(exact_posterior, in_axes=(0, 0, 0, None, None)))


def _method(name: str, words: str, *, clicks: bool = True) -> Method:
    return Method(name, words, partial(answer_own, way=name, clicks=clicks))


OWN_METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        _method("laplace", "the posterior step's Gaussian, trusting the model"),
        _method("chain", "a Markov chain on the log density of the posterior step"),
        _method("prior", "the prior, having seen no click: must pass", clicks=False),
    )
}

"""Small logs with known truth, their log density, and the same density by brute force."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from scipy import special, stats

from epiclick.batching.pairset import PairSet
from epiclick.click_models.pbm import PositionBased
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.fitted.parameters import Parameters, PointLookup
from epiclick.posterior.density import Density
from epiclick.posterior.laplace import make_density
from epiclick.relevance.network import init_exposure, init_relevance

DOCS = 5  # of each query
FEATURES = 2


def counts_of(displays: np.ndarray, clicks: np.ndarray, docs: int = DOCS) -> ClickCounts:
    """Counts of (pairs, positions), `docs` pairs per query; no features."""
    pair, context = np.nonzero(displays)
    number = np.arange(len(displays))
    return ClickCounts(
        query_id=pa.array(number // docs),
        doc_id=pa.array(number),
        contexts=pa.table({"position": np.arange(1, displays.shape[1] + 1)}),
        pair=pair,
        context=context,
        displays=displays[pair, context],
        clicks=clicks[pair, context],
    )


def world(
    pairs: int,
    theta: Sequence[float] = (1.0, 0.5),
    *,
    seed: int = 0,
    mean: float = 0.4,
    confidence: float = 3.0,
    most: int = 2,
) -> ClickCounts:
    """Every pair is shown `most` times, at positions at random; relevance from one Beta."""
    rng = np.random.default_rng(seed)
    displays = rng.multinomial(most, np.full(len(theta), 1 / len(theta)), pairs)
    zeta = rng.beta(mean * confidence, (1 - mean) * confidence, (pairs, 1))
    return counts_of(displays, rng.binomial(displays, np.array(theta) * zeta))


def with_features(counts: ClickCounts, seed: int = 1) -> ClickCounts:
    """The same clicks with random features."""
    keys = pa.table({"query_id": counts.query_id, "doc_id": counts.doc_id})
    matrix = np.random.default_rng(seed).normal(size=(len(counts), FEATURES)).astype(np.float32)
    return counts.with_features(FeatureTable(keys, ("f0", "f1"), matrix))


def pairs_of(counts: ClickCounts, batch_size: int = 10_000) -> PairSet:
    scaler = None
    if counts.features is not None:
        scaler = FeatureScaler(np.zeros(FEATURES), np.ones(FEATURES))
    return PairSet.of(counts, scaler, batch_size)


def start_of(counts: ClickCounts, hidden: Sequence[int] = (4,), seed: int = 2) -> Parameters:
    """Parameters before training."""
    contexts = len(counts.contexts)
    if counts.features is None:
        layers = init_exposure(contexts, outputs=2, mean=0.3)
    else:
        rng = np.random.default_rng(seed)
        layers = init_relevance(rng, FEATURES, hidden, outputs=2, mean=0.3)
    return Parameters(layers, PointLookup(np.zeros(contexts)))


def density_of(counts: ClickCounts, anchor: int | None = 0, batch_size: int = 10_000) -> Density:
    pairs = pairs_of(counts, batch_size)
    return make_density(pairs, start_of(counts), PositionBased(), anchor)


def brute_log_density(counts: ClickCounts, anchor: int | None, vector: np.ndarray) -> float:
    """Log-likelihood of a vector, pair by pair: a Gauss-Jacobi rule, exact for few displays."""
    displays, clicks = counts.dense()
    contexts = displays.shape[1]
    free = [k for k in range(contexts) if k != anchor]
    theta = np.ones(contexts)
    theta[free] = special.expit(vector[: len(free)])
    layer = vector[len(free) :].reshape(-1, 2)
    if counts.features is None:
        given = displays / displays.sum(axis=1, keepdims=True)
    else:
        x = counts.features.matrix[counts.feature_row].astype(float)
        (weight, bias), _ = start_of(counts).layers
        given = np.maximum(np.sign(x) * np.log1p(abs(x)) @ weight + bias, 0)
    raw = given @ layer[:-1] + layer[-1]
    nu = 1 + np.log1p(np.exp(raw[:, 1]))
    mean = special.expit(raw[:, 0])
    total = 0.0
    for pair in range(len(counts)):
        seen = jacobi_mean(
            displays[pair], clicks[pair], theta, mean[pair] * nu[pair], (1 - mean[pair]) * nu[pair]
        )
        total += np.log(seen)
    return float(total)


def jacobi_mean(
    displays: np.ndarray, clicks: np.ndarray, theta: np.ndarray, alpha: float, beta: float
) -> float:
    """E[prod_k (theta_k zeta)^M_k (1 - theta_k zeta)^W_k] over zeta ~ Beta(alpha, beta)."""
    nodes, weights = special.roots_jacobi(int(displays.sum()) // 2 + 1, beta - 1, alpha - 1)
    seen = theta * (nodes[:, None] + 1) / 2  # (nodes, positions)
    each = np.prod(seen**clicks * (1 - seen) ** (displays - clicks), axis=1)
    return float(weights @ each / weights.sum())


def log_prior(density: Density, vector: np.ndarray) -> float:
    """Of uniform position bias and a Gaussian layer, by scipy, with its constants."""
    free = density.prior.free
    return float(
        stats.logistic.logpdf(vector[:free]).sum()
        + stats.norm.logpdf(vector[free:], scale=density.prior.layer_sd).sum()
    )


def differences(function, at: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """Central differences of fourth order along every coordinate: (..., size) last."""
    columns = []
    for i in range(len(at)):
        move = np.zeros(len(at))
        move[i] = step
        near = function(at + move) - function(at - move)
        far = function(at + 2 * move) - function(at - 2 * move)
        columns.append((8 * near - far) / (12 * step))
    return np.stack([np.asarray(c) for c in columns], axis=-1)

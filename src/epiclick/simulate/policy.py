r"""The logging policy: a Plackett-Luce ranker trained on a few queries (paper, section 6).

The paper specifies a network with two hidden layers of 64 units, optimised on 30 random training
queries in a supervised manner, with rankings sampled from it. It leaves open, and we choose:

- Objective: expected DCG at the number of positions, with the supervisor's relevance as gain (zeta
  of the label; with Beta relevance its mean, so that rankings depend on features only) and the
  usual discount 1/log2(1 + k); gradient by PL-Rank (Oosterhuis 2021).
- Optimiser: Adam, learning rate 0.001, full batch, 100 steps, 32 sampled rankings per query and
  step. More steps hardly increase DCG on unseen queries, but make the policy ever more
  deterministic. With 100, about half of all displays are away from the most frequent position of
  their item (with 3,000, a quarter); if items never moved, position bias and relevance could not
  be distinguished. `strength` makes the policy more or less deterministic.
- Inputs: features after a signed logarithm, standardised; raw ones span many orders of magnitude.
"""

from dataclasses import dataclass

import numpy as np

from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.processes import one_blas_thread
from epiclick.relevance.adam import adam_step
from epiclick.relevance.network import (
    Layers,
    activations,
    apply_mlp,
    backward,
    init_mlp,
    last_layer,
)
from epiclick.simulate import threefry
from epiclick.simulate.world_items import QueryGroups

HIDDEN = (64, 64)
TRAINING_QUERIES = 30
STEPS = 100
LEARNING_RATE = 1e-3
SAMPLES = 32  # rankings per query and step
SCALER_ROWS = 100_000  # enough for a mean and a scale
CHUNK = 65_536  # rows scored at once
CANDIDATES = 2_000_000  # candidates of the pages that are sampled at once


@dataclass(frozen=True, eq=False)
class Rankings:
    """What was shown on each page.

    Attributes:
        rows: (pages, positions) row of the item shown, -1 below the end of a short page.
        taste: (pages, positions) added by the page's user to the item's relevance, in logits.
    """

    rows: np.ndarray
    taste: np.ndarray


def sample_rankings(
    scores: np.ndarray,
    queries: QueryGroups,
    page_query: np.ndarray,
    positions: int,
    rng: np.random.Generator,
    *,
    strength: float = 1.0,
    taste_sd: float = 0.0,
) -> Rankings:
    """Top-K rankings from a Plackett-Luce model with logits strength * (score + taste).

    Gumbel top-K: the K largest of logit + Gumbel noise, in order, are a Plackett-Luce ranking.

    Args:
        scores: (pairs,) score of each row.
        queries: the rows of each query.
        page_query: (pages,) number of the query of each page.
        positions: K; a query with fewer documents shows them all.
        rng: source of the noise.
        strength: 0 gives uniformly random rankings.
        taste_sd: standard deviation of taste ~ N(0, sd), one draw per page and document.
    """
    rows = np.full((len(page_query), positions), -1, dtype=np.int64)
    tastes = np.zeros((len(page_query), positions))
    # Pages of queries of similar size are sampled together, which saves padding.
    order = np.argsort(queries.sizes[page_query], kind="stable")
    chunk = max(1, CANDIDATES // int(queries.sizes.max()))
    for start in range(0, len(order), chunk):
        pages = order[start : start + chunk]
        candidates, real = queries.padded(page_query[pages])  # (pages, docs)
        taste = taste_sd * rng.standard_normal(real.shape) if taste_sd else np.zeros(real.shape)
        gumbel = -np.log(rng.standard_exponential(real.shape))
        keys = np.where(real, strength * (scores[candidates] + taste) + gumbel, -np.inf)
        top = _largest(keys, positions)
        shown = np.take_along_axis(real, top, axis=1)
        depth = slice(top.shape[1])
        rows[pages, depth] = np.where(shown, np.take_along_axis(candidates, top, axis=1), -1)
        tastes[pages, depth] = np.where(shown, np.take_along_axis(taste, top, axis=1), 0)
    return Rankings(rows, tastes)


def _largest(keys: np.ndarray, count: int) -> np.ndarray:
    """Columns of the `count` largest keys of each row (or all), largest first."""
    if count < keys.shape[1]:
        top = np.argpartition(-keys, count - 1, axis=1)[:, :count]
    else:
        top = np.broadcast_to(np.arange(keys.shape[1]), keys.shape)
    order = np.argsort(-np.take_along_axis(keys, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)


def pl_rank_gradient(
    scores: np.ndarray, relevance: np.ndarray, rankings: np.ndarray, position_weights: np.ndarray
) -> np.ndarray:
    r"""PL-Rank estimate of the gradient of expected reward in queries' scores.

    .. math::
        \frac{\partial}{\partial s_d} E\Big[\sum_k w_k \rho_{y_k}\Big] = E\Big[
            \sum_{k > rank(d)} w_k \rho_{y_k}
            + \sum_{k \le rank(d)} P(d \mid y_{<k})
              \Big(w_k \rho_d - \sum_{x \ge k} w_x \rho_{y_x}\Big) \Big]

    It is the score-function gradient in which only later rewards count, with the reward of placing
    d at k replaced by its expectation given the items above. An item not shown has infinite rank.

    Args:
        scores: (queries, docs) logits s; -inf where there is no document.
        relevance: (queries, docs) gains rho.
        rankings: (queries, samples, K) documents y by position, drawn from the scores; -1 below the
            last.
        position_weights: (K,) weights w.

    Returns:
        (queries, docs) mean of the estimate over the sampled rankings.
    """
    queries, samples, positions = rankings.shape
    shown = rankings >= 0  # (queries, samples, K)
    index = np.where(shown, rankings, 0)
    query, sample = np.arange(queries)[:, None], np.arange(samples)
    reward = position_weights * np.where(shown, relevance[query[..., None], index], 0)
    reward_from = np.cumsum(reward[..., ::-1], axis=-1)[..., ::-1]  # sum over x >= k
    reward_after = reward_from - reward

    gradient = np.zeros((queries, samples, scores.shape[-1]), scores.dtype)
    left = np.broadcast_to(scores[:, None], gradient.shape).copy()  # -inf once placed
    for k in range(positions):
        largest = left.max(axis=-1, keepdims=True)
        odds = np.exp(left - np.where(np.isfinite(largest), largest, 0))
        # where any document is left the largest odds are 1; otherwise all are 0 and must not be NaN
        probability = odds / np.maximum(odds.sum(axis=-1, keepdims=True), 1)
        advantage = position_weights[k] * relevance[:, None] - reward_from[..., k, None]
        gradient += np.where(shown[..., k, None], probability * advantage, 0)
        place = (query, sample, index[..., k])
        gradient[place] += np.where(shown[..., k], reward_after[..., k], 0)
        left[place] = np.where(shown[..., k], -np.inf, left[place])
    return gradient.mean(axis=1)


@one_blas_thread()
def _train(
    layers: Layers[np.ndarray],
    x: np.ndarray,
    relevance: np.ndarray,
    real: np.ndarray,
    seed: int,
    positions: int,
) -> Layers[np.ndarray]:
    """All training steps; x (queries, docs, features), real (queries, docs), all float32."""
    queries, docs = real.shape
    weights = (1 / np.log2(1 + np.arange(1, positions + 1))).astype(np.float32)
    arrays = [part for layer in layers for part in layer]
    means, squares = ([np.zeros_like(part) for part in arrays] for _ in range(2))
    rows = x.reshape(queries * docs, -1)
    first, second = threefry.split((0, seed), STEPS)
    for step in range(STEPS):
        layers = tuple(zip(arrays[::2], arrays[1::2], strict=True))
        units = activations(layers[:-1], rows)
        outputs = last_layer(layers, units).reshape(queries, docs)
        scores = np.where(real, outputs, np.float32(-np.inf))
        keys = threefry.split((first[step], second[step]), queries)
        noise = threefry.gumbel(keys, SAMPLES * docs).reshape(queries, SAMPLES, docs)
        noisy = scores[:, None] + noise
        rankings = _largest(noisy.reshape(-1, docs), positions).reshape(queries, SAMPLES, -1)
        drawn = np.isfinite(np.take_along_axis(noisy, rankings, axis=-1))
        gradient = pl_rank_gradient(scores, relevance, np.where(drawn, rankings, -1), weights)
        descent = backward(layers, units, (-gradient / queries).reshape(-1, 1))
        for i, slope in enumerate(part for layer in descent for part in layer):
            change, means[i], squares[i] = adam_step(slope, means[i], squares[i], step + 1)
            arrays[i] = arrays[i] - np.float32(LEARNING_RATE) * change
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))


@dataclass(frozen=True, eq=False)
class LoggingPolicy:
    """A network that scores items; pages are Plackett-Luce rankings of its scores."""

    scaler: FeatureScaler
    layers: Layers[np.ndarray]

    def scores(self, features: FeatureTable) -> np.ndarray:
        """(pairs,) float32 score of every row."""
        scores = np.empty(len(features), dtype=np.float32)
        for start in range(0, len(features), CHUNK):
            rows = slice(start, start + CHUNK)
            scores[rows] = apply_mlp(self.layers, self.scaler.transform(features.matrix[rows]))[
                :, 0
            ]
        return scores


def train_policy(
    features: FeatureTable,
    relevance: np.ndarray,
    queries: QueryGroups,
    training_queries: np.ndarray,
    positions: int,
    rng: np.random.Generator,
) -> LoggingPolicy:
    """Train a policy on 30 random training queries (all, if there are fewer).

    Args:
        features: all pairs.
        relevance: (pairs,) known to the supervisor.
        queries: the rows of each query.
        training_queries: numbers of the queries of the training split.
        positions: depth of the DCG.
        rng: source of the queries, the initial weights and the sampled rankings.
    """
    count = min(TRAINING_QUERIES, len(training_queries))
    rows, real = queries.padded(rng.choice(training_queries, size=count, replace=False))
    scaler = FeatureScaler.fit(features.matrix[:: max(1, len(features) // SCALER_ROWS)])
    x = scaler.transform(features.rows(rows.ravel())).reshape(*rows.shape, -1)
    layers = _train(
        init_mlp(rng, (x.shape[-1], *HIDDEN, 1)),
        x,
        relevance[rows].astype(np.float32),
        real,
        int(rng.integers(2**32)),
        positions=min(positions, rows.shape[1]),
    )
    return LoggingPolicy(scaler, layers)

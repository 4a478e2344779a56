r"""The log density of position bias and the network's last layer, with its exact curvature.

With the body of the network fixed, h its last hidden units and L the last layer, the raw outputs
(x_1, x_2) = (h, 1) L give the Beta of a pair's relevance, which is integrated out:

.. math:: \log p(\theta, L \mid \text{clicks}) = \sum_{qd} \log \mathcal{J}\!\!\mathcal{J}_{qd}
          (\theta, L) + \log p(\theta) + \log p(L) + \text{const}.

A pair's term depends on L by its raw outputs only. So its own second derivatives are few, however
wide the layer is, and all of the Hessian is put together from them (`curvature.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.compute as pc

from epiclick.data.counts import ClickCounts
from epiclick.likelihood.quadrature import log_beta, quadrature_log_likelihood
from epiclick.likelihood.tilting import tilted
from epiclick.models.position import PointLookup, position_points
from epiclick.models.relevance import betas_of, exposure
from epiclick.models.uncertainty import free_contexts
from epiclick.network import Layers, apply_hidden
from epiclick.posterior.curvature import pair_curvature
from epiclick.posterior.prior import Prior
from epiclick.training.pairset import PairSet

CHUNK = 2_048
"""Pairs at a time, in logs of all sizes, so that programs compile once."""

MOST_CLUSTERS = 20_000
"""Groups of queries whose scores are kept apart; more queries share groups, which is as valid."""


class Curvature(NamedTuple):
    """Log density with its derivatives, and how they vary between queries.

    Attributes:
        value: log density, up to a constant.
        gradient: (size,).
        hessian: (size, size).
        scores: (clusters, size) gradient of the log-likelihood of each group of queries.
    """

    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    scores: np.ndarray


class Chunk(NamedTuple):
    """What programs are given of some pairs, always as many; missing ones were never shown.

    Attributes:
        pairs: (CHUNK,) their numbers, -1 where there is none.
        inputs: (CHUNK, inputs) of the network.
        clicks: (CHUNK, contexts).
        unclicked: (CHUNK, contexts).
    """

    pairs: np.ndarray
    inputs: np.ndarray
    clicks: np.ndarray
    unclicked: np.ndarray


@dataclass(frozen=True, eq=False)
class Density:
    """Log density of the vector of parameters (see `ParameterPosterior`) given some pairs.

    To be called within `jax.enable_x64(True)`.

    Attributes:
        pairs: clicks and inputs.
        body: hidden layers of the network, fixed.
        contexts: number of contexts.
        anchor: the context whose bias is 1, or None.
        prior: of the vector.
    """

    pairs: PairSet
    body: Layers[np.ndarray]
    contexts: int
    anchor: int | None
    prior: Prior

    def value(self, vectors: np.ndarray) -> np.ndarray:
        """Log density of each of (draws, size) vectors, up to the same constant: (draws,)."""
        total = np.array([self.prior.log_density(vector) for vector in vectors])
        for chunk in self.chunks():
            total += np.asarray(_values(self.anchor, vectors, self.body, *chunk[1:]))
        return total

    def change(self, vector: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Log density of each of (draws, size) vectors near another one, less its own: (draws,).

        Several times as fast as two values, and right to 1e-3 of the change or better.
        """
        total = np.array([self.prior.log_density(each) for each in vectors])
        total -= self.prior.log_density(vector)
        all_vectors = np.concatenate([vector[None], vectors])
        for chunk in self.chunks():
            given = (self.body, chunk.inputs, chunk.clicks)
            factor, *shapes = (np.asarray(p) for p in _shapes(self.anchor, all_vectors, *given))
            rest, alpha, beta = shapes
            own = (rest[0], alpha[0], beta[0], chunk.clicks, chunk.unclicked)
            moved = tilted(*own, rest[1:], alpha[1:], beta[1:]).log_sum
            total += factor[1:] - factor[0] + moved.sum(axis=1)
        return total

    def curvature(self, vector: np.ndarray) -> Curvature:
        """Log density with first and second derivatives, and scores by groups of queries."""
        value, hessian = self.prior.log_density(vector), self.prior.hessian(vector)
        scores = np.zeros((self._cluster.max() + 1, len(vector)))
        for chunk in self.chunks():
            more, own, bend = _curvature(self.anchor, vector, self.body, *chunk[1:])
            value, hessian = value + float(more), hessian + np.asarray(bend)
            shown = chunk.pairs >= 0
            np.add.at(scores, self._cluster[chunk.pairs[shown]], np.asarray(own)[shown])
        gradient = scores.sum(axis=0) + self.prior.gradient(vector)
        return Curvature(value, gradient, hessian, scores)

    @cached_property
    def _cluster(self) -> np.ndarray:
        """(pairs,) group of queries of each pair."""
        return query_clusters(self.pairs.batches.counts)

    def chunks(self) -> Iterator[Chunk]:
        """All pairs, some at a time."""
        counts, inputs = self.pairs.batches.counts, self.pairs.inputs
        for start in range(0, len(counts), CHUNK):
            pairs = np.arange(start, min(start + CHUNK, len(counts)))
            displays, clicks = counts.dense(pairs)
            x = exposure(displays) if inputs is None else inputs.take(pairs)
            missing = CHUNK - len(pairs)
            parts = (x, clicks, displays - clicks)
            yield Chunk(
                np.pad(pairs, (0, missing), constant_values=-1),
                *(np.pad(part, ((0, missing), (0, 0))) for part in parts),
            )


def query_clusters(counts: ClickCounts) -> np.ndarray:
    """(pairs,) number of the group of each pair's query; one query a group unless they are many."""
    query = pc.dictionary_encode(counts.query_id).indices.to_numpy(zero_copy_only=False)
    return query % MOST_CLUSTERS


def mean_square_inputs(density: Density) -> np.ndarray:
    """(units,) mean square of what the last layer is given, over the pairs."""
    total, count = 0.0, 0
    for chunk in density.chunks():
        hidden = np.asarray(apply_hidden(density.body, chunk.inputs), np.float64)
        shown = chunk.pairs >= 0
        total, count = total + np.square(hidden[shown]).sum(axis=0), count + shown.sum()
    return np.asarray(total) / count


def unpack(
    anchor: int | None, contexts: int, vector: jax.Array, body: Layers[jax.Array], inputs: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """theta and 1 - theta (contexts,), what the last layer is given (pairs, units + 1), it."""
    free = free_contexts(contexts, anchor)
    logit = jnp.zeros(contexts).at[free].set(vector[: len(free)])
    theta, rest = position_points(PointLookup(logit), anchor, jnp)
    hidden = apply_hidden(body, inputs).astype(jnp.float64)
    given = jnp.concatenate([hidden, jnp.ones((len(hidden), 1))], axis=1)
    return theta, rest, given, vector[len(free) :].reshape(given.shape[1], -1)


@jax.jit(static_argnums=0)
def _values(
    anchor: int | None,
    vectors: jax.Array,
    body: Layers[jax.Array],
    inputs: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
) -> jax.Array:
    """Log-likelihood of the pairs at each of (draws, size) vectors: (draws,)."""

    def one(vector: jax.Array) -> jax.Array:
        theta, rest, given, layer = unpack(anchor, clicks.shape[1], vector, body, inputs)
        raw = given @ layer
        alpha, beta = betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)
        return quadrature_log_likelihood(theta, rest, alpha, beta, clicks, unclicked).sum()

    return jax.lax.map(one, vectors)


@jax.jit(static_argnums=0)
def _shapes(
    anchor: int | None,
    vectors: jax.Array,
    body: Layers[jax.Array],
    inputs: jax.Array,
    clicks: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """At each of (draws, size) vectors: log factor of all pairs, 1 - theta, alpha and beta.

    The factor is what stands before the integrals over relevance.
    """

    def one(vector: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        theta, rest, given, layer = unpack(anchor, clicks.shape[1], vector, body, inputs)
        raw = given @ layer
        alpha, beta = betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)
        return (clicks * jnp.log(theta)).sum() - log_beta(alpha, beta).sum(), rest, alpha, beta

    return jax.lax.map(one, vectors)


@jax.jit(static_argnums=0)
def _curvature(
    anchor: int | None,
    vector: jax.Array,
    body: Layers[jax.Array],
    inputs: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Log-likelihood of the pairs, scores (pairs, size) and Hessian (size, size)."""
    contexts = clicks.shape[1]
    theta, rest, given, layer = unpack(anchor, contexts, vector, body, inputs)
    free = free_contexts(contexts, anchor)
    own = pair_curvature(theta, rest, free, given @ layer, clicks, unclicked)
    size = layer.size
    by_layer = (given[:, :, None] * own.by_raw[:, None, :]).reshape(len(given), size)
    position = own.logit_logit.sum(axis=0)
    cross = jnp.einsum("pfo,ph->fho", own.logit_raw, given).reshape(len(free), size)
    blocks = [
        [(given * own.raw_raw[:, o, q][:, None]).T @ given for q in range(2)] for o in range(2)
    ]
    inner = jnp.array(blocks).transpose(2, 0, 3, 1).reshape(size, size)  # (h, o, g, q)
    scores = jnp.concatenate([own.by_logit, by_layer], axis=1)
    return own.value.sum(), scores, jnp.block([[position, cross], [cross.T, inner]])

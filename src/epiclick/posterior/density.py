r"""The log density of position bias and the network's last layer, with its exact curvature.

With the body of the network fixed, h its last hidden units and L the last layer, the raw outputs
(x_1, x_2) = (h, 1) L give the Beta of a pair's relevance, which is integrated out:

.. math:: \log p(\theta, L \mid \text{clicks}) = \sum_{qd} \log \mathcal{J}\!\!\mathcal{J}_{qd}
          (\theta, L) + \log p(\theta) + \log p(L) + \text{const}.

A pair's term depends on L only through its raw outputs. So its own second derivatives are few,
however wide the layer is, and the whole Hessian is assembled from them (`curvature.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.compute as pc

from epiclick.batching.pairset import PairSet
from epiclick.click_models.click_model import ClickModel, Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.pairs import are_many, few_sizes, slots_needed, slots_of
from epiclick.likelihood.quadrature import log_beta, log_examined, quadrature_log_likelihood
from epiclick.likelihood.tilting import tilted
from epiclick.posterior.curvature import chained, emission_logits, pair_curvature
from epiclick.posterior.joint_prior import Prior
from epiclick.processes import available_cores
from epiclick.relevance.heads import betas_of, exposure
from epiclick.relevance.network import Layers, given_to_last

Piece = TypeVar("Piece")
Result = TypeVar("Result")
ArrayType = TypeVar("ArrayType", np.ndarray, jax.Array)

CHUNK = 2_048
"""Pairs at a time, in logs of any size, so that programs compile once."""

NODES_OF_SLOPE = 24
"""Of the quadrature in steps towards the mode, which take half the time with these."""

MOST_CLUSTERS = 20_000
"""Groups of queries with separate scores; more queries share groups, which is as valid."""


class Curvature(NamedTuple):
    """Log density with its derivatives, and its scores by groups of queries.

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


class Chunk(NamedTuple, Generic[ArrayType]):
    """Some pairs, padded to CHUNK by pairs that were never shown.

    Attributes:
        pairs: (CHUNK,) their numbers, -1 for padding.
        inputs: (CHUNK, inputs) of the network.
        clicks: (CHUNK, contexts), or (CHUNK, slots).
        unclicked: as clicks.
        slots: (CHUNK, slots) contexts of the counts (see `likelihood.pairs`); None where counts
            cover all contexts.
    """

    pairs: ArrayType
    inputs: ArrayType
    clicks: ArrayType
    unclicked: ArrayType
    slots: ArrayType | None


@dataclass(frozen=True)
class Emitter:
    """From the click model's part of the parameter vector to the emission; static in programs.

    Attributes:
        clicks: the click model.
        contexts: number of contexts.
        anchor: the context whose bias is 1, or None.
    """

    clicks: ClickModel
    contexts: int
    anchor: int | None

    @property
    def free(self) -> np.ndarray:
        """Indices of the click model's parameters that are learned."""
        return self.clicks.free(self.contexts, self.anchor)

    def emission(self, own: jax.Array) -> Emission:
        """Of the free parameters (free,): (contexts,) each."""
        parameters = jnp.zeros(self.clicks.size(self.contexts)).at[self.free].set(own)
        return self.clicks.emission(parameters, self.anchor, jnp)

    def logits(self, own: jax.Array) -> jax.Array:
        """The emission's logits, in the order of `PairCurvature`."""
        return emission_logits(self.emission(own))


@dataclass(frozen=True, eq=False)
class Density:
    """Log density of the vector of parameters (see `ParameterPosterior`) given some pairs.

    Its methods must be called within `jax.enable_x64(True)`.

    Attributes:
        pairs: clicks and inputs.
        body: hidden layers of the network, fixed.
        emitter: the click model, its contexts and anchor.
        prior: of the vector.
        width: inputs of the last layer.
    """

    pairs: PairSet
    body: Layers[np.ndarray]
    emitter: Emitter
    prior: Prior
    width: int

    def value(self, vectors: np.ndarray) -> np.ndarray:
        """Log density of each of (draws, size) vectors, up to the same constant: (draws,)."""
        total = np.array([self.prior.log_density(vector) for vector in vectors])
        for chunk in self.chunks():
            total += np.asarray(_values(self.emitter, vectors, self.body, chunk))
        return total

    def change(self, vector: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Log density of (draws, size) vectors minus that of another vector near them: (draws,).

        Several times as fast as two calls of `value`, and accurate to 1e-3 of the change or better.
        """
        total = np.array([self.prior.log_density(each) for each in vectors])
        total -= self.prior.log_density(vector)
        all_vectors = np.concatenate([vector[None], vectors])
        for chunk in self.chunks():
            factor, emission, alpha, beta = jax.tree.map(
                np.asarray, _shapes(self.emitter, all_vectors, self.body, chunk)
            )
            own, other = (jax.tree.map(lambda p, i=i: p[i], emission) for i in (0, slice(1, None)))
            counts = (chunk.clicks, chunk.unclicked)
            others = (other, alpha[1:], beta[1:])
            moved = tilted(own, alpha[0], beta[0], *counts, *others, chunk.slots).log_sum
            total += factor[1:] - factor[0] + moved.sum(axis=1)
        return total

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (size,), with fewer nodes than `curvature` uses."""
        value, gradient = self.prior.log_density(vector), self.prior.gradient(vector)

        def of(chunk: Chunk[np.ndarray]) -> tuple[float, np.ndarray]:
            more, own = _slope(self.emitter, vector, self.body, chunk)
            return float(more), np.asarray(own)

        for more, own in on_all_cores(of, self.chunks()):
            value, gradient = value + more, gradient + own
        return value, gradient

    def curvature(self, vector: np.ndarray) -> Curvature:
        """Log density with first and second derivatives, and scores by groups of queries."""
        value, hessian = self.prior.log_density(vector), self.prior.hessian(vector)
        scores = np.zeros((self._cluster.max() + 1, len(vector)))
        free = self.prior.free

        def of(chunk: Chunk[np.ndarray]) -> tuple[Chunk[np.ndarray], list[np.ndarray]]:
            at = _curvature(self.emitter, vector, self.body, chunk)
            return chunk, [np.asarray(part) for part in at]

        for chunk, (more, by_parameter, by_raw, given, bend) in on_all_cores(of, self.chunks()):
            value, hessian = value + float(more), hessian + bend
            cluster, order, starts = _grouped(self._cluster[chunk.pairs[chunk.pairs >= 0]])
            scores[cluster, :free] += np.add.reduceat(by_parameter[order], starts)
            for output in range(2):
                by_layer = given[order] * by_raw[order, output, None]
                scores[cluster, free + output :: 2] += np.add.reduceat(by_layer, starts)
        gradient = scores.sum(axis=0) + self.prior.gradient(vector)
        return Curvature(value, gradient, hessian, scores)

    def sample(self, most: int, seed: int) -> tuple["Density", float]:
        """The density given a sample of up to `most` pairs, and how many pairs each represents."""
        counts, inputs = self.pairs.batches.counts, self.pairs.inputs
        if len(counts) <= most:
            return self, 1.0
        chosen = np.random.default_rng([seed, 7]).choice(len(counts), most, replace=False)
        scaler = None if inputs is None else inputs.scaler
        some = PairSet.of(counts.subset(np.sort(chosen)), scaler, most)
        return replace(self, pairs=some), len(counts) / most

    @cached_property
    def _cluster(self) -> np.ndarray:
        """(pairs,) group of queries of each pair."""
        return query_clusters(self.pairs.batches.counts)

    def chunks(self) -> Iterator[Chunk[np.ndarray]]:
        """All pairs, chunk by chunk; with many contexts, pairs shown in few of them first."""
        counts, inputs = self.pairs.batches.counts, self.pairs.inputs
        order, needed = np.arange(len(counts)), None
        if are_many(self.emitter.contexts):
            needed = slots_needed(counts)
            order = np.argsort(needed, kind="stable")
        for start in range(0, len(counts), CHUNK):
            pairs = order[start : start + CHUNK]
            if inputs is None:
                x = exposure(counts.over_given(counts.dense(pairs)[0]))
            else:
                x = inputs.take(pairs)
            context = None
            if needed is None:
                displays, clicks = counts.dense(pairs)
                unclicked = displays - clicks
            else:
                size = few_sizes(int(needed[pairs].max()), self.emitter.contexts)
                context, clicks, unclicked = slots_of(counts, pairs, size)
            missing = CHUNK - len(pairs)
            below = ((0, missing), (0, 0))
            yield Chunk(
                np.pad(pairs, (0, missing), constant_values=-1),
                np.pad(x, below),
                np.pad(clicks, below),
                np.pad(unclicked, below),
                None if context is None else np.pad(context, below),
            )


def query_clusters(counts: ClickCounts) -> np.ndarray:
    """(pairs,) index of the group of each pair's query; groups are single queries if few."""
    query = pc.dictionary_encode(counts.query_id).indices.to_numpy(zero_copy_only=False)
    return query % MOST_CLUSTERS


def _grouped(cluster: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters that occur, an order that makes each contiguous, and where each starts."""
    order = np.argsort(cluster, kind="stable")
    occurring, starts = np.unique(cluster[order], return_index=True)
    return occurring, order, starts


def mean_square_inputs(density: Density) -> np.ndarray:
    """(units,) mean square of the last layer's inputs over the pairs."""
    total, count = 0.0, 0
    for chunk in density.chunks():
        hidden = np.concatenate(given_to_last(density.body, chunk.inputs, density.width), axis=1)
        hidden = hidden.astype(np.float64)
        shown = chunk.pairs >= 0
        total, count = total + np.square(hidden[shown]).sum(axis=0), count + shown.sum()
    return np.asarray(total) / count


def unpack(
    emitter: Emitter, vector: jax.Array, body: Layers[jax.Array], inputs: jax.Array
) -> tuple[Emission, jax.Array, jax.Array]:
    """The emission (contexts,), the inputs of the last layer (pairs, units + 1), and the layer."""
    free = len(emitter.free)
    layer = vector[free:].reshape(-1, 2)
    hidden = [h.astype(jnp.float64) for h in given_to_last(body, inputs, len(layer) - 1)]
    given = jnp.concatenate([*hidden, jnp.ones((len(inputs), 1))], axis=1)
    return emitter.emission(vector[:free]), given, layer


def _at(emission: Emission, chunk: Chunk[jax.Array]) -> Emission:
    """The emission in the layout of the counts."""
    return emission if chunk.slots is None else emission.at(chunk.slots)


def _emission_and_betas(
    emitter: Emitter, vector: jax.Array, body: Layers[jax.Array], chunk: Chunk
) -> tuple[Emission, jax.Array, jax.Array]:
    """The emission (contexts,), and alpha and beta of relevance (pairs,)."""
    emission, given, layer = unpack(emitter, vector, body, chunk.inputs)
    raw = given @ layer
    return emission, *betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)


@jax.jit(static_argnums=0)
def _values(
    emitter: Emitter, vectors: jax.Array, body: Layers[jax.Array], chunk: Chunk[jax.Array]
) -> jax.Array:
    """Log-likelihood of the pairs at each of (draws, size) vectors: (draws,)."""

    def one(vector: jax.Array) -> jax.Array:
        emission, alpha, beta = _emission_and_betas(emitter, vector, body, chunk)
        counts = (chunk.clicks, chunk.unclicked)
        return quadrature_log_likelihood(_at(emission, chunk), alpha, beta, *counts).sum()

    return jax.lax.map(one, vectors)


@jax.jit(static_argnums=0)
def _shapes(
    emitter: Emitter, vectors: jax.Array, body: Layers[jax.Array], chunk: Chunk[jax.Array]
) -> tuple[jax.Array, Emission, jax.Array, jax.Array]:
    """At each of (draws, size) vectors: log factor of all pairs, emission, alpha and beta.

    The factor multiplies the integrals over relevance.
    """

    def one(vector: jax.Array) -> tuple[jax.Array, Emission, jax.Array, jax.Array]:
        emission, alpha, beta = _emission_and_betas(emitter, vector, body, chunk)
        examined = log_examined(_at(emission, chunk), chunk.clicks).sum()
        return examined - log_beta(alpha, beta).sum(), emission, alpha, beta

    return jax.lax.map(one, vectors)


@jax.jit(static_argnums=0)
def _slope(
    emitter: Emitter, vector: jax.Array, body: Layers[jax.Array], chunk: Chunk[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Log-likelihood of the pairs and its gradient (size,); jit drops second derivatives."""
    emission, given, layer = unpack(emitter, vector, body, chunk.inputs)
    counts = (chunk.clicks, chunk.unclicked)
    own = pair_curvature(emission, given @ layer, *counts, NODES_OF_SLOPE, chunk.slots)
    by_parameter = chained(emitter.logits, vector[: len(emitter.free)], own).by_parameter
    by_layer = given.T @ own.by_raw
    return own.value.sum(), jnp.concatenate([by_parameter.sum(axis=0), by_layer.ravel()])


@jax.jit(static_argnums=0)
def _curvature(
    emitter: Emitter, vector: jax.Array, body: Layers[jax.Array], chunk: Chunk[jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Log-likelihood of the pairs, the parts of their scores, and the Hessian (size, size).

    The parts are derivatives in the click model's parameters (pairs, free) and in the raw outputs
    (pairs, 2), and the inputs of the last layer (pairs, units + 1).
    """
    emission, given, layer = unpack(emitter, vector, body, chunk.inputs)
    counts = (chunk.clicks, chunk.unclicked)
    own = pair_curvature(emission, given @ layer, *counts, slots=chunk.slots)
    free = len(emitter.free)
    by_parameter, clicks_clicks, clicks_raw = chained(emitter.logits, vector[:free], own)
    size = layer.size
    cross = jnp.einsum("pfo,ph->fho", clicks_raw, given).reshape(free, size)
    mean, both, confidence = (
        (given * own.raw_raw[:, o, q][:, None]).T @ given for o, q in ((0, 0), (0, 1), (1, 1))
    )
    blocks = jnp.array([[mean, both], [both.T, confidence]])
    inner = blocks.transpose(2, 0, 3, 1).reshape(size, size)  # (h, o, g, q)
    hessian = jnp.block([[clicks_clicks, cross], [cross.T, inner]])
    return own.value.sum(), by_parameter, own.by_raw, given, hessian


def on_all_cores(
    program: Callable[[Piece], Result], pieces: Iterable[Piece], cores: int | None = None
) -> Iterator[Result]:
    """Results of a program for each piece, in their order, so that sums are reproducible.

    A compiled program for a few thousand pairs keeps one core busy. Only a few pieces are in memory
    at a time.

    Args:
        program: of a piece; runs within `jax.enable_x64(True)`, which threads do not inherit.
        pieces: the inputs.
        cores: number of threads; default the number of cores.
    """

    def run(piece: Piece) -> Result:
        with jax.enable_x64(True):
            return program(piece)

    cores = len(available_cores()) if cores is None else cores
    if cores == 1:
        yield from map(run, pieces)
        return
    remaining = iter(pieces)
    with ThreadPoolExecutor(cores) as threads:
        while some := list(islice(remaining, 2 * cores)):
            yield from threads.map(run, some)

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
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import csr_array

from epiclick.batching.pairset import CACHED_BYTES, Origin, PairSet
from epiclick.click_models.click_model import ClickModel, Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.batch_gradient import batch_gradient, pair_log_likelihoods
from epiclick.likelihood.pairs import PairBatch
from epiclick.likelihood.relative import relative_log_likelihoods
from epiclick.posterior.curvature import pair_curvature
from epiclick.posterior.joint_prior import Prior
from epiclick.processes import available_cores
from epiclick.relevance.heads import betas_of, betas_slope
from epiclick.relevance.network import Layers, activations

Piece = TypeVar("Piece")
Result = TypeVar("Result")

NODES_OF_SLOPE = 32
"""Of the quadrature in steps towards the mode, accurate to 1e-7 per pair."""

NODES_OF_CURVATURE, ROUGH_NODES = 40, 20
"""Of the quadrature in second derivatives, accurate to 1e-8 per pair, or to 1e-4."""

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


class Part(NamedTuple):
    """Some pairs.

    Attributes:
        pairs: (pairs,) their numbers, -1 for padding.
        given: (pairs, units + 1) inputs of the last layer, and 1, in the precision of the body.
        batch: their clicks, with the weight of each.
    """

    pairs: np.ndarray
    given: np.ndarray
    batch: PairBatch


@dataclass(frozen=True)
class Emitter:
    """From the click model's part of the parameter vector to the emission.

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

    def parameters(self, own: np.ndarray) -> np.ndarray:
        """All parameters of the click model, from the free ones; 0 for the others."""
        found = np.zeros(self.clicks.size(self.contexts))
        found[self.free] = own
        return found

    def emission(self, own: np.ndarray) -> Emission:
        """Of the free parameters (free,): (contexts,) each."""
        return self.clicks.emission(self.parameters(own), self.anchor, np)

    def jacobian(self, own: np.ndarray) -> np.ndarray:
        """(logits, free) derivatives of the emission's logits."""
        return self.clicks.logit_jacobian(self.parameters(own), self.anchor)[:, self.free]

    def bend(self, own: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """(free, free) sum over logits of slope times their second derivatives."""
        whole = self.clicks.logit_bend(self.parameters(own), self.anchor, slope)
        return whole[np.ix_(self.free, self.free)]


@dataclass(frozen=True, eq=False)
class Density:
    """Log density of the vector of parameters (see `ParameterPosterior`) given some pairs.

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
        total = np.zeros(len(vectors))

        def of(part: Part) -> list[float]:
            found = []
            for vector in vectors:
                emission, raw = self._at(vector, part)
                betas = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
                one = Emission(*(None if own is None else own[None] for own in emission))
                each = pair_log_likelihoods(one, *betas, part.batch, NODES_OF_SLOPE)[0]
                found.append(each @ part.batch.weight)
            return found

        for more in on_all_cores(of, self.parts()):
            total += more
        (total,) = self.pairs.processes.sum([total])
        return np.array([self.prior.log_density(vector) for vector in vectors]) + total

    def relative(self, centre: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Log density of each of (draws, size) vectors minus that of a centre near them: (draws,).

        To about 1e-8 per pair, in a fraction of the time of `value`.
        """
        free, prior = self.prior.free, self.prior.log_density
        total = np.zeros(len(vectors))
        each = [self.emitter.emission(vector[:free]) for vector in vectors]
        others = Emission(
            *(None if own[0] is None else np.stack(own) for own in zip(*each, strict=True))
        )

        def of(part: Part) -> np.ndarray:
            emission, raw = self._at(centre, part)
            here = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
            layers = vectors[:, free:].reshape(len(vectors), -1, 2).transpose(1, 0, 2)
            outputs = np.empty((len(raw), len(vectors), 2))
            for rows, given in _in_float64(part.given):
                outputs[rows] = np.tensordot(given, layers, 1)
            mean, confidence = outputs.transpose(2, 1, 0)
            there = betas_of(mean, confidence, np, smooth=True)
            found = relative_log_likelihoods(emission, *here, others, *there, part.batch)
            return found @ part.batch.weight

        for more in on_all_cores(of, self.parts()):
            total += more
        (total,) = self.pairs.processes.sum([total])
        return np.array([prior(vector) for vector in vectors]) - prior(centre) + total

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density and its gradient (size,)."""
        value, gradient = 0.0, np.zeros(len(vector))
        jacobian = self.emitter.jacobian(vector[: self.prior.free])

        def of(part: Part) -> tuple[float, np.ndarray]:
            emission, raw = self._at(vector, part)
            betas = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
            found = batch_gradient(emission, *betas, part.batch, NODES_OF_SLOPE)
            weight = part.batch.weight
            by_shape = (weight * found.by_alpha, weight * found.by_beta)
            by_raw = np.stack(betas_slope(raw[:, 0], raw[:, 1], *by_shape, smooth=True), axis=1)
            by_layer = np.zeros((part.given.shape[1], 2))
            for rows, given in _in_float64(part.given):
                by_layer += given.T @ by_raw[rows]
            by_clicks = jacobian.T @ found.by_logit
            return weight @ found.value, np.concatenate([by_clicks, by_layer.ravel()])

        for more, own in on_all_cores(of, self.parts()):
            value, gradient = value + more, gradient + own
        total, gradient = self.pairs.processes.sum([np.array(value), gradient])
        gradient = self.prior.gradient(vector) + gradient
        return float(self.prior.log_density(vector) + total), gradient

    def curvature(self, vector: np.ndarray) -> Curvature:
        """Log density with first and second derivatives, and scores by groups of queries."""
        value, hessian = 0.0, np.zeros((len(vector), len(vector)))
        clusters = self._clusters
        scores = np.zeros((clusters.shape[1], len(vector)))
        free = self.prior.free
        jacobian = self.emitter.jacobian(vector[:free])
        slope = np.zeros(len(jacobian))

        def of(part: Part) -> tuple[Part, _PartCurvature]:
            return part, self._part_curvature(vector, part, jacobian, NODES_OF_CURVATURE)

        for part, found in on_all_cores(of, self.parts()):
            value += found.value
            hessian += found.hessian
            slope += part.batch.weight @ found.by_logit
            own = clusters[part.pairs]  # (pairs, clusters); weights are the numbers in clusters
            # pairs are in the order of queries, so that a part is in few of the clusters
            there, column = np.unique(own.indices, return_inverse=True)
            own = csr_array((own.data, column, own.indptr), (len(part.pairs), len(there))).T
            by_layer = np.empty((len(part.given), scores.shape[1] - free))
            for output in range(2):
                np.multiply(part.given, found.by_raw[:, output, None], out=by_layer[:, output::2])
            scores[there, :free] += own @ (found.by_logit @ jacobian)
            scores[there, free:] += own @ by_layer
        total, hessian, slope, scores = self.pairs.processes.sum(
            [np.array(value), hessian, slope, scores]
        )
        hessian += self.prior.hessian(vector)
        hessian[:free, :free] += self.emitter.bend(vector[:free], slope)
        gradient = scores.sum(axis=0) + self.prior.gradient(vector)
        value = float(self.prior.log_density(vector) + total)
        return Curvature(value, gradient, hessian, scores)

    def rough_hessian(self, vector: np.ndarray, most: int) -> np.ndarray:
        """(size, size) second derivatives to a few percent, in a fraction of the time.

        Args:
            vector: (size,) parameters.
            most: pairs that it is computed from, about; the others are assumed to be alike.
        """
        free = self.prior.free
        jacobian = self.emitter.jacobian(vector[:free])
        slope, found = np.zeros(len(jacobian)), np.zeros((len(vector), len(vector)))
        batches = self.pairs.batches
        every = min(-(-len(batches.counts) // most), len(batches))
        weight = 0.0

        def of(part: Part) -> tuple[_PartCurvature, PairBatch]:
            found = self._part_curvature(vector, part, jacobian, ROUGH_NODES)
            return found, part.batch

        for more, batch in on_all_cores(of, islice(self.parts(), 0, None, every)):
            found += more.hessian
            slope += batch.weight @ more.by_logit
            weight += batch.weight.sum()
        found, slope, total = self.pairs.processes.sum([found, slope, np.array(weight)])
        found[:free, :free] += self.emitter.bend(vector[:free], slope)
        whole = len(batches.counts) if batches.weight is None else batches.weight.sum()
        return self.prior.hessian(vector) + found * (whole / total)

    def _part_curvature(
        self,
        vector: np.ndarray,
        part: Part,
        jacobian: np.ndarray,
        nodes: int,
    ) -> "_PartCurvature":
        """Of the likelihood of some pairs, without the bend of the logits."""
        emission, raw = self._at(vector, part)
        batch, given = part.batch, part.given
        free, size, logits = len(jacobian.T), 2 * given.shape[1], len(jacobian)
        value, by_logit, by_raw = 0.0, np.empty((len(raw), logits)), np.empty_like(raw)
        clicks, cross = np.zeros((logits, logits)), np.zeros((logits, given.shape[1], 2))
        blocks = np.zeros((2, 2, given.shape[1], given.shape[1]))
        for own, bucket in batch.parts():
            weight = batch.weight[own]
            counts = (bucket.clicks, bucket.unclicked)
            found = pair_curvature(emission, raw[own], *counts, nodes, bucket.slots, weight)
            value += weight @ found.value
            by_logit[own], by_raw[own] = found.by_logit, found.by_raw
            clicks += found.logit_logit
            units = given[own]
            for o, q in ((0, 0), (0, 1), (1, 1)):
                blocks[o, q] += _gram(units, weight * found.raw_raw[:, o, q])
            by_logits = weight[:, None, None] * found.logit_raw
            for rows in _blocks(len(units)):
                few = units[rows].astype(np.float64)
                for o in range(2):
                    cross[:, :, o] += by_logits[rows, :, o].T @ few
        blocks[1, 0] = blocks[0, 1].T
        inner = blocks.transpose(2, 0, 3, 1).reshape(size, size)  # (h, o, g, q)
        outer = jacobian.T @ cross.reshape(logits, size)
        hessian = np.zeros((free + size, free + size))
        hessian[:free, :free] = jacobian.T @ clicks @ jacobian
        hessian[:free, free:], hessian[free:, :free] = outer, outer.T
        hessian[free:, free:] = inner
        return _PartCurvature(value, by_logit, by_raw, hessian)

    def with_prior(self, prior: Prior) -> "Density":
        """The density of the same pairs under another prior."""
        other = replace(self, prior=prior)
        # what was computed of the pairs serves again
        other.__dict__.update(
            {
                name: self.__dict__[name]
                for name in ("_cached", "_clusters")
                if name in self.__dict__
            }
        )
        return other

    def sample(self, most: int, seed: int) -> "Density":
        """The density given a sample of up to `most` pairs, each weighted for those it represents.

        Its likelihood is an unbiased estimate of that of all pairs.
        """
        batches, inputs = self.pairs.batches, self.pairs.inputs
        counts = batches.counts
        if len(counts) <= most:
            return self
        chosen = np.random.default_rng([seed, 7]).choice(len(counts), most, replace=False)
        chosen.sort()
        scaler, exposure = (None, None) if inputs is None else (inputs.scaler, inputs.exposure)
        own = np.ones(len(counts)) if batches.weight is None else batches.weight
        some = PairSet.of(
            counts.subset(chosen),
            scaler,
            batches.batch_size,
            weight=own[chosen] * (len(counts) / most),
            affine=batches.affine,
            exposure=None if exposure is None else exposure[chosen],
            share=None if self.pairs.share is None else self.pairs.share.at(chosen),
        )
        return replace(self, pairs=some)

    @cached_property
    def _clusters(self) -> csr_array:
        """(pairs, clusters) how often each pair, or those it stands for, is in groups of queries.

        A last row, of padding, is empty.
        """
        batches, origin = self.pairs.batches, self.pairs.origin
        rows = len(batches.counts)
        if origin is None:
            origin = Origin(batches.counts, np.arange(rows), batches.weight)
        cluster, row = query_clusters(origin.counts), origin.row
        count = np.ones(len(row)) if origin.weight is None else origin.weight
        shape = (rows + 1, int(cluster.max(initial=0)) + 1)
        return csr_array((count, (row, cluster)), shape)

    def parts(self) -> Iterator[Part]:
        """All pairs, some at a time."""
        if self._cached is not None:
            yield from self._cached
        else:
            yield from self._computed()

    @cached_property
    def _cached(self) -> list[Part] | None:
        """All parts, if they are small enough to cache."""
        size = self.width + 3 * self.emitter.contexts  # numbers per pair, about
        pairs = len(self.pairs.batches.counts) // self.pairs.processes.count
        if 8 * size * pairs > CACHED_BYTES:
            return None
        return list(self._computed())

    def _computed(self) -> Iterator[Part]:
        for pairs, (inputs, batch) in zip(self.pairs.own_pairs(), self.pairs.epoch(), strict=True):
            units = activations(self.body, inputs)
            taken = units[-1:] if units[-1].shape[1] == self.width else units
            ones = np.ones((len(inputs), 1), taken[-1].dtype)
            yield Part(pairs, np.concatenate([*taken, ones], axis=1), batch)

    def _at(self, vector: np.ndarray, part: Part) -> tuple[Emission, np.ndarray]:
        """The emission (contexts,), and the raw outputs of the network (pairs, 2)."""
        free = self.prior.free
        layer, raw = vector[free:].reshape(-1, 2), np.empty((len(part.given), 2))
        for rows, given in _in_float64(part.given):
            raw[rows] = given @ layer
        return self.emitter.emission(vector[:free]), raw


class _PartCurvature(NamedTuple):
    """Log-likelihood of some pairs, its derivatives in logits and raw outputs, and its Hessian."""

    value: float
    by_logit: np.ndarray
    by_raw: np.ndarray
    hessian: np.ndarray


ROWS = 512
"""Pairs at a time in products with the last layer: their units fit in the processor's cache."""


def _blocks(pairs: int) -> list[slice]:
    return [slice(start, start + ROWS) for start in range(0, pairs, ROWS)]


def _in_float64(units: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Some rows at a time, in one array that is written over: half as many bytes are read."""
    room = np.empty((min(ROWS, len(units)), units.shape[1]))
    for rows in _blocks(len(units)):
        few = units[rows]
        np.copyto(room[: len(few)], few)
        yield rows, room[: len(few)]


GRAM_ROWS = 1024
"""Pairs at a time in products of their units with each other."""


def _gram(units: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(units, units) sum over pairs of weight times the outer product of their units.

    Rows of each sign are scaled by the root of their weight. The product of an array with its own
    transpose takes half the operations of other products.
    """
    total = np.zeros((units.shape[1], units.shape[1]))
    root = np.sqrt(np.abs(weight))
    for add, chosen in ((np.add, weight > 0), (np.subtract, weight < 0)):
        (rows,) = np.nonzero(chosen)
        for start in range(0, len(rows), GRAM_ROWS):
            some = rows[start : start + GRAM_ROWS]
            scaled = units[some] * root[some, None]
            add(total, scaled.T @ scaled, out=total)
    return total


def query_clusters(counts: ClickCounts) -> np.ndarray:
    """(pairs,) index of the group of each pair's query; groups are single queries if few."""
    query = pc.dictionary_encode(counts.query_id).indices.to_numpy(zero_copy_only=False)
    return query % MOST_CLUSTERS


def mean_square_inputs(density: Density) -> np.ndarray:
    """(units,) mean square of the last layer's inputs over the pairs."""
    total, count = np.zeros(density.width), 0.0
    for part in density.parts():
        weight = part.batch.weight
        for rows, given in _in_float64(part.given):
            total += np.einsum("p,pu,pu->u", weight[rows], given, given)[:-1]
        count += weight.sum()
    total, whole = density.pairs.processes.sum([total, np.array(count)])
    return total / whole


def on_all_cores(
    program: Callable[[Piece], Result], pieces: Iterable[Piece], cores: int | None = None
) -> Iterator[Result]:
    """Results of a program for each piece, in their order, so that sums are reproducible.

    Arithmetic on a few thousand pairs keeps one core busy, and lets other threads run meanwhile.
    Only a few pieces are in memory at a time. Numpy does not warn of numbers that are not finite: a
    step towards the mode may go too far, and is then refused.

    Args:
        program: of a piece.
        pieces: the inputs.
        cores: number of threads; default the number of cores.
    """
    cores = len(available_cores()) if cores is None else cores

    def quietly(piece: Piece) -> Result:
        with np.errstate(all="ignore"):  # of this thread
            return program(piece)

    if cores == 1:
        yield from map(quietly, pieces)
        return
    remaining = iter(pieces)
    first = list(islice(remaining, 2))
    if len(first) < 2:  # a thread would only wait for another
        yield from map(quietly, first)
        return
    remaining = chain(first, remaining)
    with ThreadPoolExecutor(cores) as threads:
        while some := list(islice(remaining, 2 * cores)):
            yield from threads.map(quietly, some)

r"""Scores of groups of users, pages or days, which share pairs with each other.

The log-likelihood is a sum over pairs, with the relevance of each integrated out given *all* of its
clicks. So clicks of one group have no term of their own. What they contribute to the gradient s at
the mode is the difference that leaving them out makes, with likelihoods of the remaining counts:

.. math:: s_g = s - s_{(-g)}, \qquad \hat x_{(-g)} - \hat x \approx -H^{-1} s_g,

the second being one Newton step towards the mode without the group. The variance between such
estimates, scaled, is the grouped jackknife:

.. math:: \frac{G}{G - 1} H^{-1} \sum_g (s_g - \bar s)(s_g - \bar s)^\top H^{-1}.

For groups of queries s_g is the gradient of their own log-likelihood, as in the sandwich estimator
of `laplace`, which differs in its factor and is averaged with the model's own variance. Inputs of
the network, such as exposure, are kept: what varies is the clicks. With few groups the variance
itself is uncertain, so it is widened until Gaussian intervals of level `WIDENED_AT` have the width
of those of Student's t with G - 1 degrees of freedom.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import ndtri, stdtrit

from epiclick.batching.batches import Batches
from epiclick.batching.pairset import PairSet
from epiclick.batching.shares import Share
from epiclick.data.clusters import ClusterCounts
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.batch_gradient import batch_gradient
from epiclick.likelihood.pairs import PairBatch
from epiclick.posterior.density import NODES_OF_SLOPE, Density, Part, on_all_cores
from epiclick.relevance.heads import betas_of, betas_slope

WIDENED_AT = 0.9
"""Level at which intervals have exactly the width of Student's t."""

MOST_PAIRS = 4096
"""Pairs of one group that are computed at a time."""


def between_groups(scores: np.ndarray) -> np.ndarray:
    """(size, size) variance of the gradient, from the scores of groups, (groups, size)."""
    groups = len(scores)
    away = scores - scores.mean(axis=0)
    return student_widening(groups - 1) * groups / (groups - 1) * away.T @ away


def student_widening(freedom: int) -> float:
    """By how much a variance estimated with so many degrees of freedom is widened.

    >>> [round(student_widening(freedom), 2) for freedom in (6, 99)]
    [1.4, 1.02]
    """
    end = (1 + WIDENED_AT) / 2
    return float((stdtrit(freedom, end) / ndtri(end)) ** 2)


class _Piece(NamedTuple):
    """Pairs of one group, all of which are in one part of the density.

    Attributes:
        group: its number.
        part: of the density.
        row: (pairs,) where they are in the part.
        entries: (entries,) of the clusters, in the order of the pairs.
    """

    group: int
    part: Part
    row: np.ndarray
    entries: np.ndarray


def cluster_scores(density: Density, vector: np.ndarray, clusters: ClusterCounts) -> np.ndarray:
    """(groups, size) by how much leaving out each group changes the gradient.

    Args:
        density: of the parameters given all pairs.
        vector: (size,) parameters.
        clusters: the pairs' counts by group.
    """
    whole = _every_pair(density)
    counts = whole.pairs.batches.counts
    free = density.prior.free
    emission = density.emitter.emission(vector[:free])
    jacobian = density.emitter.jacobian(vector[:free])
    layer = vector[free:].reshape(-1, 2)

    def of(piece: _Piece) -> tuple[int, np.ndarray]:
        order, batch = _with_and_without(counts, clusters, piece, whole.pairs.batches.affine)
        given = piece.part.given[piece.row[order]]
        raw = given.astype(np.float64) @ layer
        betas = betas_of(raw[:, 0], raw[:, 1], np, smooth=True)
        found = batch_gradient(emission, *betas, batch, NODES_OF_SLOPE)
        by_shape = (batch.weight * found.by_alpha, batch.weight * found.by_beta)
        by_raw = np.stack(betas_slope(raw[:, 0], raw[:, 1], *by_shape, smooth=True), axis=1)
        by_layer = given.T.astype(np.float64) @ by_raw
        return piece.group, np.concatenate([jacobian.T @ found.by_logit, by_layer.ravel()])

    scores = np.zeros((clusters.groups, len(vector)))
    for group, score in on_all_cores(of, _pieces(whole, clusters)):
        scores[group] += score
    (scores,) = whole.pairs.processes.sum([scores])
    return scores


def _every_pair(density: Density) -> Density:
    """The density with every pair on its own: equal ones differ in which group clicked them."""
    pairs = density.pairs
    if pairs.origin is None:
        return density
    batches = pairs.batches
    counts, share = pairs.origin.counts, None
    if pairs.share is not None:
        share = Share.of(counts, pairs.processes)
    every = PairSet.of(counts, None, batches.batch_size, affine=batches.affine, share=share)
    return replace(density, pairs=every)


def _pieces(density: Density, clusters: ClusterCounts) -> Iterator[_Piece]:
    """All pairs of all groups, some at a time."""
    place = np.full(len(density.pairs.batches.counts), -1)  # of each pair in the part
    # entries of a group, then of a pair, are neighbours
    order = np.lexsort((clusters.pair, clusters.group))
    for part in density.parts():
        present = np.flatnonzero(part.pairs >= 0)
        place[:] = -1
        place[part.pairs[present]] = present
        entries = order[place[clusters.pair[order]] >= 0]
        ends = np.searchsorted(clusters.group[entries], np.arange(clusters.groups + 1))
        for group in range(clusters.groups):
            own = entries[ends[group] : ends[group + 1]]
            pairs, first = np.unique(clusters.pair[own], return_index=True)
            for start in range(0, len(pairs), MOST_PAIRS):
                some = pairs[start : start + MOST_PAIRS]
                beyond = start + MOST_PAIRS
                end = first[beyond] if beyond < len(pairs) else len(own)
                yield _Piece(group, part, place[some], own[first[start] : end])


def _with_and_without(
    counts: ClickCounts, clusters: ClusterCounts, piece: _Piece, affine: bool
) -> tuple[np.ndarray, PairBatch]:
    """Pairs with all of their clicks, of weight 1, and without those of a group, of weight -1.

    Returns:
        Which pair of the piece each row of the batch is, and the batch.
    """
    pairs = piece.part.pairs[piece.row]
    count = len(pairs)
    shown, clicked = counts.dense(pairs)
    less_shown, less_clicked = np.zeros_like(shown), np.zeros_like(clicked)
    at = (np.searchsorted(pairs, clusters.pair[piece.entries]), clusters.context[piece.entries])
    np.add.at(less_shown, at, clusters.displays[piece.entries])
    np.add.at(less_clicked, at, clusters.clicks[piece.entries])
    displays = np.concatenate([shown, shown - less_shown])
    clicks = np.concatenate([clicked, clicked - less_clicked])
    row, context = np.nonzero(displays)
    both = ClickCounts(
        query_id=pa.nulls(2 * count, pa.int64()),
        doc_id=pa.nulls(2 * count, pa.int64()),
        contexts=counts.contexts,
        pair=row,
        context=context,
        displays=displays[row, context],
        clicks=clicks[row, context],
        options=counts.options,
    )
    sign = np.repeat([1.0, -1.0], count)
    batches = Batches(both, 2 * count, sign, affine=affine)
    (order,) = batches.epoch()
    return order % count, batches.assemble(order)

"""The likelihood of a batch of pairs, each by the method that suits its number of displays.

A user browsing model of 20 positions has 210 contexts, but most pairs are shown in a few of them.
Each pair then has *slots*, one for each context in which it was shown. All pairs of an array have
the same number, so that programs compile once; unused slots have no displays.

Pairs of a batch are laid out in buckets of a fixed width, so that a program compiles once. Those
with up to `SWITCH_OVER` unclicked displays are summed in closed form, whose cost grows with the
square of the width; the others are integrated by quadrature, whose cost does not depend on it.

If unattractive items are clicked too (an affine emission), the sum includes clicks, and widths
count all displays instead of unclicked ones.
"""

import operator
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.closed_form import MANY_CONTEXTS, expanded_log_unclicked, log_attracted
from epiclick.likelihood.quadrature import quadrature_log_likelihood

LEAST_SLOTS = 4
FEW_SIZES = (8, 32, 128)


class Slots(NamedTuple):
    """Counts by slots; (pairs, slots) each.

    Attributes:
        context: of each slot, int32; 0 if the slot is unused.
        clicks: number of clicks there.
        unclicked: number of displays without a click.
    """

    context: np.ndarray
    clicks: np.ndarray
    unclicked: np.ndarray


def are_many(contexts: int) -> bool:
    """Whether pairs are laid out by slots rather than by context."""
    return contexts > MANY_CONTEXTS


def slots_needed(counts: ClickCounts) -> np.ndarray:
    """(pairs,) number of contexts in which each pair was shown."""
    if not len(counts.pair):
        return np.zeros(len(counts), np.int64)
    # entries are in the order of (pair, context, part), so that parts of a context are neighbours
    new = (np.diff(counts.pair) != 0) | (np.diff(counts.context) != 0)
    return np.bincount(counts.pair[np.r_[True, new]], minlength=len(counts))


def rounded_slots(needed: int, contexts: int) -> int:
    """The array size for so many slots: 4, 6, 8, 12, 16, 24, 32 ..., at most `contexts`."""
    size = LEAST_SLOTS
    while size < needed:
        power = 1 << (size.bit_length() - 1)  # the largest power of 2 up to this size
        size = 2 * power if size > power else 3 * power // 2
    return min(size, contexts)


def few_sizes(needed: int, contexts: int) -> int:
    """The same with fewer sizes, for programs that take long to compile."""
    return next((size for size in FEW_SIZES if needed <= size < contexts), contexts)


def slots_of(counts: ClickCounts, pairs: np.ndarray, size: int | None = None) -> Slots:
    """Counts of some pairs by slots; a pair of -1 was never shown.

    Args:
        counts: displays and clicks.
        pairs: numbers of the pairs.
        size: slots per pair; default the most that any pair of the counts needs, rounded up, so
            that all parts of the counts have the same shape.
    """
    contexts = len(counts.contexts)
    if size is None:
        size = rounded_slots(int(slots_needed(counts).max(initial=1)), contexts)
    start = np.searchsorted(counts.pair, pairs, side="left")
    entries = np.where(pairs < 0, 0, np.searchsorted(counts.pair, pairs, side="right") - start)
    row = np.repeat(np.arange(len(pairs)), entries)  # (entries of the pairs,)
    entry = np.arange(len(row)) + np.repeat(start - np.cumsum(entries) + entries, entries)
    context = counts.context[entry]
    new = np.ones(len(row), bool)  # whether the entry is the first of its pair and context
    new[1:] = (np.diff(row) != 0) | (np.diff(context) != 0)
    slot = np.cumsum(new) - 1
    first = np.zeros(len(pairs), np.int64)  # slot at which each pair begins
    used = np.bincount(row[new], minlength=len(pairs))
    first[1:] = np.cumsum(used)[:-1]
    place = slot - first[row]
    index = np.zeros((len(pairs), size), np.int32)
    index[row, place] = context
    clicks, unclicked = (
        # bincount sums in float64, exact up to 2^53
        np.bincount(row * size + place, amount, len(pairs) * size)
        .astype(np.int64)
        .reshape(len(pairs), size)
        for amount in (counts.clicks[entry], (counts.displays - counts.clicks)[entry])
    )
    return Slots(index, clicks, unclicked)


Array: TypeAlias = jax.Array | np.ndarray

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Most displays in the sum of a pair of each bucket; pairs with more are in a last bucket."""

SWITCH_OVER = WIDTHS[-1]
BUCKETS = len(WIDTHS) + 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bucket:
    """Counts of pairs that are computed by the same method.

    Attributes:
        clicks: (pairs, contexts) number of clicks, or (pairs, slots).
        unclicked: number of displays without a click, of the same shape.
        order: (pairs, width) context of each display without a click, -1 for padding; None for
            pairs with too many of them. For an affine emission, of every display, plus the number
            of contexts if it was clicked.
        slots: (pairs, slots) context of each slot; None where counts cover all contexts.
    """

    clicks: jax.Array
    unclicked: jax.Array
    order: jax.Array | None
    slots: jax.Array | None = None

    def at(self, emission: Emission) -> Emission:
        """An emission (..., contexts) in the layout of the counts: unchanged, or by slots."""
        return emission if self.slots is None else emission.at(self.slots)

    def over_contexts(self, values: jax.Array) -> jax.Array:
        """Sum over clicks of values (samples, contexts): (samples, pairs)."""
        if self.slots is None:
            return values @ self.clicks.T
        return (values[:, self.slots] * self.clicks).sum(axis=-1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PairBatch:
    """Counts of a batch of pairs, bucket after bucket; all by slots, or none.

    Attributes:
        buckets: pairs of the batch, in its order.
        weight: (pairs,) weight of each pair; 0 for padding.
    """

    buckets: tuple[Bucket, ...]
    weight: jax.Array

    @property
    def has_slots(self) -> bool:
        """Whether counts are laid out by slots."""
        return any(bucket.slots is not None for bucket in self.buckets)

    @property
    def clicks(self) -> jax.Array:
        """(pairs, contexts) clicks of all pairs, if counts cover all contexts."""
        assert not self.has_slots
        return jnp.concatenate([bucket.clicks for bucket in self.buckets])

    @property
    def unclicked(self) -> jax.Array:
        """(pairs, contexts) displays without a click of all pairs, if counts cover all contexts."""
        assert not self.has_slots
        return jnp.concatenate([bucket.unclicked for bucket in self.buckets])

    @property
    def total_clicks(self) -> jax.Array:
        """(pairs,) clicks in all contexts together."""
        return jnp.concatenate([bucket.clicks.sum(axis=1) for bucket in self.buckets])

    def by_pair(self, values: Array) -> list[jax.Array]:
        """Values (pairs, ...) of the batch, bucket by bucket."""
        ends = np.cumsum([len(bucket.clicks) for bucket in self.buckets])[:-1]
        return jnp.split(jnp.asarray(values), ends)

    def clicks_by_context(self, contexts: int) -> jax.Array:
        """(contexts,) weighted clicks of all pairs."""
        if not self.has_slots:
            return self.weight @ self.clicks
        total = jnp.zeros(contexts, jnp.float64)
        for bucket, weight in zip(self.buckets, self.by_pair(self.weight), strict=True):
            total = total.at[bucket.slots].add(weight[:, None] * bucket.clicks)
        return total


def bucket_of(displays: np.ndarray) -> np.ndarray:
    """Index of the bucket of pairs with this number of displays in the sum; any shape."""
    return np.searchsorted(WIDTHS, displays)


def pair_log_likelihoods(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> jax.Array:
    r"""Log-likelihood of each pair under each emission, relevance integrated out.

    .. math:: \log \mathcal{J}\!\!\mathcal{J}_{qd}(\theta^{(i)}) = \log E_{\zeta_{qd}}
              \Big[\prod_k (\theta_k^{(i)} \zeta)^{M_k} (1 - \theta_k^{(i)} \zeta)^{W_k}\Big]

    (paper, section 5.2), without binomial coefficients and weights.

    Args:
        emission: (samples, contexts) probabilities of a click, in float64.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        batch: counts of the pairs, laid out for an affine emission if this one is.

    Returns:
        (samples, pairs).
    """
    parts = _by_bucket(emission, alpha, beta, batch)
    joined = jnp.concatenate(jax.lax.optimization_barrier(parts), axis=1)
    if emission.is_affine:
        return joined
    log_theta = jnp.log(emission.attractive)
    examined = [bucket.over_contexts(log_theta) for bucket in batch.buckets]
    clicked = jnp.concatenate(examined, axis=1) + log_attracted(alpha, beta, batch.total_clicks)
    return clicked + joined


def log_likelihoods(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> jax.Array:
    """Weighted log-likelihood of the whole batch under each emission: (samples,)."""
    parts = _by_bucket(emission, alpha, beta, batch)
    weights = batch.by_pair(batch.weight)
    each = [part @ weight for part, weight in zip(parts, weights, strict=True)]
    displays = reduce(operator.add, each)
    if emission.is_affine:
        return displays
    log_theta = jnp.log(emission.attractive)
    examined = log_theta @ batch.clicks_by_context(log_theta.shape[1])
    attracted = log_attracted(alpha, beta, batch.total_clicks) @ batch.weight
    return examined + attracted + displays


def _by_bucket(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> list[jax.Array]:
    """Log-probability of the displays in the sum: (samples, pairs) per bucket.

    These are the unclicked displays, given the clicks; all displays if the emission is affine.

    Barriers keep the compiler from fusing buckets with each other, which multiplies the compile
    time and makes nothing faster.
    """
    parts, start = [], 0
    for bucket in batch.buckets:
        own = slice(start, start := start + len(bucket.clicks))
        attractive = alpha[own]
        if not emission.is_affine:
            attractive = attractive + bucket.clicks.sum(axis=1)  # a + M
        attractive, b = jax.lax.optimization_barrier((attractive, beta[own]))
        if bucket.order is not None:
            parts.append(expanded_log_unclicked(emission, attractive, b, bucket.order))
            continue
        quadrature = partial(
            quadrature_log_likelihood,
            alpha=attractive,
            beta=b,
            clicks=bucket.clicks if emission.is_affine else jnp.zeros_like(bucket.clicks),
            unclicked=bucket.unclicked,
        )
        # one emission at a time: these pairs are few, their nodes many
        parts.append(jax.lax.map(lambda one, b=bucket, q=quadrature: q(b.at(one)), emission))
    return parts


def known_log_likelihoods(
    emission: Emission, zeta: jax.Array, other: jax.Array, batch: PairBatch
) -> jax.Array:
    r"""Log-likelihood of each pair at a known relevance, without binomial coefficients: (pairs,).

    .. math:: \sum_k M_k \log P(\text{click} \mid k, \zeta)
              + W_k \log\big(1 - P(\text{click} \mid k, \zeta)\big)

    Args:
        emission: (contexts,) probabilities of a click.
        zeta: (pairs,) relevance.
        other: (pairs,) 1 - relevance.
        batch: counts of the pairs.
    """
    if not batch.has_slots:
        return _known(emission, zeta, other, batch.clicks, batch.unclicked)
    zetas, others = batch.by_pair(zeta), batch.by_pair(other)
    parts = [
        _known(bucket.at(emission), z, o, bucket.clicks, bucket.unclicked)
        for bucket, z, o in zip(batch.buckets, zetas, others, strict=True)
    ]
    return jnp.concatenate(parts)


def _known(
    emission: Emission, zeta: jax.Array, other: jax.Array, clicks: jax.Array, unclicked: jax.Array
) -> jax.Array:
    """The same for counts (pairs, contexts or slots)."""
    if emission.is_affine:
        a, a_rest, b, b_rest = emission
        z, o = zeta[:, None], other[:, None]
        each = clicks * jnp.log(jnp.where(clicks > 0, a * z + b * o, 1))
        skipped = jnp.where(unclicked > 0, a_rest * z + b_rest * o, 1)
        return (each + unclicked * jnp.log(skipped)).sum(axis=1)
    theta, rest = emission.attractive, emission.attractive_rest
    examined = clicks @ jnp.log(theta) if theta.ndim == 1 else (clicks * jnp.log(theta)).sum(axis=1)
    clicked = examined + clicks.sum(axis=1) * jnp.log(zeta)
    # 1 - theta zeta = (1 - zeta) + (1 - theta) zeta, a sum of positive terms
    unseen = jnp.log(other[:, None] + rest * zeta[:, None])
    return clicked + (unclicked * unseen).sum(axis=1)

"""Batches of pairs, laid out by the method that suits their number of displays.

A user browsing model of 20 positions has 210 contexts, but most pairs are shown in a few of them.
Each pair then has *slots*, one for each context in which it was shown. All pairs of an array have
the same number, so that programs compile once; unused slots have no displays.

Pairs of a batch are laid out in buckets of a fixed width, so that a program compiles once. Those
with up to `SWITCH_OVER` unclicked displays are summed in closed form, whose cost grows with the
square of the width; the others are integrated by quadrature, whose cost does not depend on it.

If unattractive items are clicked too (an affine emission), the sum includes clicks, and widths
count all displays instead of unclicked ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts

MANY_CONTEXTS = 32
"""With more, values are looked up by index, and pairs are laid out by slots."""

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


WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Most displays in the sum of a pair of each bucket; pairs with more are in a last bucket."""

SWITCH_OVER = WIDTHS[-1]
BUCKETS = len(WIDTHS) + 1


@dataclass(frozen=True)
class Bucket:
    """Counts of pairs that are computed by the same method; arrays of numpy, or of jax in a trace.

    Attributes:
        clicks: (pairs, contexts) number of clicks, or (pairs, slots).
        unclicked: number of displays without a click, of the same shape.
        order: (pairs, width) context of each display without a click, -1 for padding; None for
            pairs with too many of them. For an affine emission, of every display, plus the number
            of contexts if it was clicked.
        slots: (pairs, slots) context of each slot; None where counts cover all contexts.
    """

    clicks: Any
    unclicked: Any
    order: Any
    slots: Any = None

    def at(self, emission: Emission) -> Emission:
        """An emission (..., contexts) in the layout of the counts: unchanged, or by slots."""
        return emission if self.slots is None else emission.at(self.slots)

    def over_contexts(self, values: Any) -> Any:
        """Sum over clicks of values (samples, contexts): (samples, pairs)."""
        if self.slots is None:
            return values @ self.clicks.T
        return (values[:, self.slots] * self.clicks).sum(axis=-1)


@dataclass(frozen=True)
class PairBatch:
    """Counts of a batch of pairs, bucket after bucket; all by slots, or none.

    Attributes:
        buckets: pairs of the batch, in its order.
        weight: (pairs,) weight of each pair; 0 for padding.
        whole: total weight of the batch that these pairs are a part of; None for all of it.
    """

    buckets: tuple[Bucket, ...]
    weight: Any
    whole: Any = None

    @property
    def has_slots(self) -> bool:
        """Whether counts are laid out by slots."""
        return any(bucket.slots is not None for bucket in self.buckets)

    def parts(self) -> Iterator[tuple[slice, Bucket]]:
        """Where the pairs of each bucket are in arrays of the batch, and the bucket."""
        start = 0
        for bucket in self.buckets:
            yield slice(start, start := start + len(bucket.clicks)), bucket


def bucket_of(displays: np.ndarray) -> np.ndarray:
    """Index of the bucket of pairs with this number of displays in the sum; any shape."""
    return np.searchsorted(WIDTHS, displays)

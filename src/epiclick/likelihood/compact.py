"""Counts of pairs by the contexts in which they were shown, where contexts are many.

A user browsing model of 20 positions has 210 contexts, but most pairs are shown in a few of them.
Each pair then has *slots*, one for every context in which it was shown. All pairs of an array have
as many, so that programs compile once; slots that are left over have no displays.
"""

from typing import NamedTuple

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.likelihood.expansion import MANY_CONTEXTS

LEAST_SLOTS = 4
FEW_SIZES = (8, 32, 128)


class Slots(NamedTuple):
    """Counts by slots; (pairs, slots) each.

    Attributes:
        context: of each slot, int32; 0 where the slot is left over.
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
    """A size of arrays, of few that there are: 4, 6, 8, 12, 16, 24, 32 ..., at most contexts."""
    size = LEAST_SLOTS
    while size < needed:
        power = 1 << (size.bit_length() - 1)  # the largest of at most this size
        size = 2 * power if size > power else 3 * power // 2
    return min(size, contexts)


def few_sizes(needed: int, contexts: int) -> int:
    """A size of arrays, of very few: for programs that take long to compile."""
    return next((size for size in FEW_SIZES if needed <= size < contexts), contexts)


def slots_of(counts: ClickCounts, pairs: np.ndarray, size: int | None = None) -> Slots:
    """Counts of some pairs by slots; a pair of -1 was never shown.

    Args:
        counts: displays and clicks.
        pairs: numbers of the pairs.
        size: slots of each pair; by default as many as any pair of the counts needs, rounded up, so
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

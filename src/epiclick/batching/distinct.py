"""Pairs with equal counts, which without features are equal in everything the likelihood sees.

In a log with a long tail most pairs were displayed once or twice. Grouped by their vectors of
displays and clicks, with the size of each group as its weight, the likelihood and its derivatives
cost as much as there are distinct vectors.
"""

from typing import NamedTuple

import numpy as np

from epiclick.data.counts import ClickCounts


class Distinct(NamedTuple):
    """Groups of pairs with equal counts.

    Attributes:
        first: (groups,) the first pair of each group, ascending.
        group: (pairs,) the group of each pair.
        size: (groups,) number of pairs in each.
    """

    first: np.ndarray
    group: np.ndarray
    size: np.ndarray


def distinct_counts(counts: ClickCounts) -> Distinct:
    """Group pairs by their displays and clicks in each context; exact.

    Pairs are grouped by hashes, and all members of a group are then compared with its first pair.
    """
    pairs = len(counts)
    summed = _by_context(counts)
    key = np.zeros(pairs, np.uint64)
    np.add.at(key, summed.pair, _hashed(summed))
    _, first, group, size = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)  # groups in the order of their first pairs
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first, size, group = first[order], size[order], place[group]
    if not _are_equal(summed, pairs, first[group]):
        raise AssertionError("two different vectors of counts have the same hash")
    return Distinct(first, group, size)


class _Entries(NamedTuple):
    """Displays and clicks of pairs by context, parts of a context added up; (entries,) each."""

    pair: np.ndarray
    context: np.ndarray
    displays: np.ndarray
    clicks: np.ndarray


def _by_context(counts: ClickCounts) -> _Entries:
    """The entries, which are in the order of (pair, context, part)."""
    if not len(counts.pair):
        return _Entries(counts.pair, counts.context, counts.displays, counts.clicks)
    new = np.r_[True, (np.diff(counts.pair) != 0) | (np.diff(counts.context) != 0)]
    if new.all():
        return _Entries(counts.pair, counts.context, counts.displays, counts.clicks)
    start = np.flatnonzero(new)
    displays, clicks = (np.add.reduceat(each, start) for each in (counts.displays, counts.clicks))
    return _Entries(counts.pair[start], counts.context[start], displays, clicks)


MULTIPLIERS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64
)
"""Large odd numbers, one for each of context, displays and clicks."""


def _hashed(entries: _Entries) -> np.ndarray:
    """(entries,) a well-mixed number for each entry; those of a pair are added up."""
    with np.errstate(over="ignore"):
        mixed = np.zeros(len(entries.pair), np.uint64)
        for part, multiplier in zip(entries[1:], MULTIPLIERS, strict=True):
            mixed = (mixed + part.astype(np.uint64) + np.uint64(1)) * multiplier
            mixed ^= mixed >> np.uint64(29)
            mixed *= MULTIPLIERS[1]
            mixed ^= mixed >> np.uint64(32)
    return mixed


def _are_equal(entries: _Entries, pairs: int, like: np.ndarray) -> bool:
    """Whether every pair has the same entries as the pair that `like`, (pairs,), names."""
    start = np.searchsorted(entries.pair, np.arange(pairs + 1))
    number = np.diff(start)
    if not np.array_equal(number, number[like]):
        return False
    other = np.arange(len(entries.pair)) + np.repeat(start[like] - start[:-1], number)
    return all(np.array_equal(part, part[other]) for part in entries[1:])

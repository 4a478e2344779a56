"""Mini-batches of pairs in fixed shapes, so that training compiles once.

Every batch takes the same share of each bucket (pairs with a similar number of unclicked displays),
give or take one pair, and is padded with pairs of weight 0. Each epoch assigns every pair to
exactly one batch, in a new order. Where there are many contexts, counts are stored by slots, the
same number in all batches of a bucket.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.likelihood.pairs import (
    BUCKETS,
    SWITCH_OVER,
    WIDTHS,
    Bucket,
    PairBatch,
    Slots,
    are_many,
    bucket_of,
    rounded_slots,
    slots_needed,
    slots_of,
)

JOINED = 10_000
"""Terms of the closed form (pairs times displays squared) that are added to save a bucket."""

KEPT_BYTES = 128 * 2**20
"""Counts of all pairs up to this size are laid out once; others again for each batch."""


@dataclass(frozen=True)
class Shapes:
    """Number and size of batches, to let several counts share compiled programs.

    Attributes:
        batches: number of batches in an epoch.
        capacity: room for pairs of each bucket in a batch.
        slots: slots per pair in each bucket, where there are many contexts; None for as many as
            needed.
    """

    batches: int
    capacity: tuple[int, ...]
    slots: tuple[int, ...] | None = None

    @classmethod
    def common(
        cls, several: Sequence[ClickCounts], batches: int, *, affine: bool = False
    ) -> "Shapes":
        """The smallest shapes that fit each of several counts, in this number of batches."""
        members = [_by_bucket(counts, affine) for counts in several]
        each = [_capacity(own, batches) for own in members]
        slots = [_slots(counts, own) for counts, own in zip(several, members, strict=True)]
        known = [own for own in slots if own is not None]
        return cls(batches, _largest(each), _largest(known) if known else None)


@dataclass(frozen=True, eq=False)
class Batches:
    """How the pairs of some counts are assigned to batches.

    Attributes:
        counts: the pairs and their entries.
        batch_size: most pairs in a batch, unless shapes are given.
        weight: weight of each pair, (pairs,) or (networks, pairs); default 1.
        shapes: number and size of batches, to share them with other counts; batches are padded to
            them.
        affine: whether batches are for an affine emission: pairs go to buckets by all of their
            displays, and `order` lists clicks as well.
        compact: whether counts are stored by slots where there are many contexts.
    """

    counts: ClickCounts
    batch_size: int
    weight: np.ndarray | None = None
    shapes: Shapes | None = None
    affine: bool = False
    compact: bool = True

    def __post_init__(self) -> None:
        """Reject shapes that are too small."""
        if self.shapes is None:
            return
        room, need = self.shapes.capacity, _capacity(self._members, len(self))
        if len(room) != BUCKETS or any(a < b for a, b in zip(room, need, strict=False)):
            raise InputError(
                f"batches have room for {room} pairs per bucket, but {len(self.counts):,} pairs in "
                f"{len(self)} batches need {need}; compute the shapes of all counts that share "
                "them with Shapes.common",
                code="shapes-too-small",
            )
        given, own = self.shapes.slots, self._needed_slots
        if own is not None and given is not None and any(map(int.__lt__, given, own)):
            raise InputError(
                f"batches have {given} slots per bucket, but pairs need {own}; compute the shapes "
                "of all counts that share them with Shapes.common",
                code="shapes-too-small",
            )

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        if self.shapes is not None:
            return self.shapes.batches
        return -(-len(self.counts) // self.batch_size)

    @cached_property
    def displays(self) -> np.ndarray:
        """Weighted displays of all pairs: (networks,), or (1,) where networks share weights."""
        if self.weight is None:
            return np.array([self.counts.total_displays])
        shown = np.bincount(self.counts.pair, self.counts.displays, len(self.counts))
        # row by row: converting all weights to float64 would take eight times their memory
        return np.array([row @ shown for row in np.atleast_2d(self.weight)])

    @cached_property
    def _start(self) -> np.ndarray:
        """(pairs + 1,) where the entries of each pair begin."""
        return np.searchsorted(self.counts.pair, np.arange(len(self.counts) + 1))

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """Pairs of each bucket."""
        return _by_bucket(self.counts, self.affine)

    @cached_property
    def _bucket(self) -> np.ndarray:
        """(pairs,) bucket of each pair."""
        bucket = np.empty(len(self.counts), np.uint8)
        for number, members in enumerate(self._members):
            bucket[members] = number
        return bucket

    @cached_property
    def _needed_slots(self) -> tuple[int, ...] | None:
        """Slots of each bucket; None where counts are stored for all contexts."""
        return _slots(self.counts, self._members) if self.compact else None

    @property
    def slots(self) -> tuple[int, ...] | None:
        """Slots of each bucket in all batches; None where counts are stored for all contexts."""
        if self._needed_slots is None or self.shapes is None or self.shapes.slots is None:
            return self._needed_slots
        return self.shapes.slots

    @cached_property
    def capacity(self) -> tuple[int, ...]:
        """Most pairs of each bucket in a batch."""
        if self.shapes is not None:
            return self.shapes.capacity
        return _capacity(self._members, len(self))

    def epoch(self, rng: np.random.Generator | None = None) -> Iterator[np.ndarray]:
        """The pairs of each batch, (sum of capacities,), -1 for padding.

        Pairs are in random order, or in the order of the counts without a generator.
        """
        order = [members if rng is None else rng.permutation(members) for members in self._members]
        ends = self._ends if len(self) else []
        for batch in range(len(self)):
            parts = []
            for members, end, capacity in zip(order, ends, self.capacity, strict=True):
                own = members[end[batch] : end[batch + 1]]
                parts.append(np.r_[own, np.full(capacity - len(own), -1)])
            yield np.concatenate(parts)

    @cached_property
    def _ends(self) -> list[np.ndarray]:
        """(batches + 1,) where the pairs of each batch end, for every bucket.

        Remainders are distributed over batches in turn, across all buckets, so that batch sizes
        differ by at most one pair.
        """
        turn, ends = 0, []
        for members in self._members:
            each, more = divmod(len(members), len(self))
            extra = (np.arange(len(self)) - turn) % len(self) < more
            ends.append(np.r_[0, np.cumsum(each + extra)])
            turn += more
        return ends

    def total(self, pairs: np.ndarray) -> Any:
        """Total weight of the pairs of a batch, for each network if weights differ."""
        present = pairs[pairs >= 0]
        return len(present) if self.weight is None else self.weight[..., present].sum(axis=-1)

    def assemble_part(self, pairs: np.ndarray, whole: Any = None) -> PairBatch:
        """Counts of some of the pairs of a batch, in its order and without padding.

        `whole` is the total weight of the batch.
        """
        sizes = np.bincount(self._bucket[pairs], minlength=BUCKETS).tolist()
        return replace(self._assembled(pairs, _joined(sizes)), whole=whole)

    def assemble(self, pairs: np.ndarray) -> PairBatch:
        """Counts of the pairs of one batch, in the order and shapes of `epoch`."""
        return self._assembled(pairs, _joined(self.capacity))

    def _assembled(self, pairs: np.ndarray, sizes: Sequence[tuple[range, int]]) -> PairBatch:
        """Counts of pairs, of which so many are in each of the program's buckets."""
        present = pairs >= 0
        slots, kept = self.slots, self._kept
        # rows of all pairs, whose last is padding, or of these pairs
        (laid_out, order), rows = (
            (self._laid_out(pairs), np.arange(len(pairs))) if kept is None else (kept, pairs)
        )
        own = 1.0 if self.weight is None else self.weight[..., np.where(present, pairs, 0)]
        weight = np.where(present, own, 0.0)
        buckets, start = [], 0
        for joined, capacity in sizes:
            part = rows[start : start + capacity]
            start += capacity
            last = joined[-1]
            size = None if slots is None else max(slots[bucket] for bucket in joined)
            clicks, unclicked = (each.take(part, axis=0)[:, :size] for each in laid_out[1:])
            buckets.append(
                Bucket(
                    clicks,
                    unclicked,
                    order[part, : WIDTHS[last]] if last < len(WIDTHS) else None,
                    None if slots is None else laid_out.context[part, :size],
                )
            )
        return PairBatch(tuple(buckets), weight)

    @cached_property
    def _kept(self) -> tuple[Slots, np.ndarray] | None:
        """`_laid_out` of all pairs, and of one of padding, if they are few: epochs share it."""
        size = len(self.counts.contexts) if self.slots is None else max(self.slots)
        if (len(self.counts) + 1) * (16 * size + 4 * SWITCH_OVER) > KEPT_BYTES:
            return None
        return self._laid_out(np.r_[np.arange(len(self.counts)), -1])

    def _laid_out(self, pairs: np.ndarray) -> tuple[Slots, np.ndarray]:
        """Counts of some pairs, by slots or by context, and `order` of their displays."""
        if self.slots is None:
            clicks, unclicked = self.dense(pairs)
            index = np.broadcast_to(np.arange(clicks.shape[1]), clicks.shape)
            laid_out = Slots(index, clicks, unclicked)
        else:
            laid_out = slots_of(self.counts, pairs, max(self.slots))
        return laid_out, _order(laid_out, len(self.counts.contexts), self.affine)

    def dense(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Clicks and unclicked displays of the pairs of a batch, (pairs, contexts) each."""
        counts, contexts = self.counts, len(self.counts.contexts)
        present = pairs >= 0
        index = np.where(present, pairs, 0)
        entries = np.where(present, self._start[index + 1] - self._start[index], 0)
        row = np.repeat(np.arange(len(pairs)), entries)  # (entries of the batch,)
        entry = np.arange(len(row)) + np.repeat(
            self._start[index] - np.cumsum(entries) + entries, entries
        )
        context = counts.context[entry]
        clicked, shown = counts.clicks[entry], counts.displays[entry]
        clicks, unclicked = (
            # bincount sums in float64, exact up to 2^53
            np.bincount(row * contexts + context, amount, len(pairs) * contexts)
            .astype(np.int64)
            .reshape(len(pairs), contexts)
            for amount in (clicked, shown - clicked)
        )
        return clicks, unclicked


def _by_bucket(counts: ClickCounts, affine: bool) -> list[np.ndarray]:
    """Pairs of each bucket."""
    summed = counts.displays if affine else counts.displays - counts.clicks
    # bincount sums in float64, exact up to 2^53; a pair may have no entries
    bucket = bucket_of(np.bincount(counts.pair, summed, len(counts)))
    return [np.flatnonzero(bucket == i) for i in range(BUCKETS)]


def _joined(capacity: Sequence[int]) -> list[tuple[range, int]]:
    """Buckets of the program: the buckets that each consists of, and their pairs.

    Every bucket has a fixed cost, of compiling half a second where a program is compiled. Pairs of
    a small one go with those of the next wider instead, which costs little per step.
    """
    joined, first, waiting = [], 0, 0
    for bucket, pairs in enumerate(capacity):
        waiting += pairs
        if bucket < len(WIDTHS) - 1:
            extra = WIDTHS[bucket + 1] ** 2 - WIDTHS[bucket] ** 2
            # what there is to join may lie beyond buckets without pairs
            if waiting * extra <= JOINED and any(capacity[bucket + 1 : len(WIDTHS)]):
                continue
        if waiting:
            joined.append((range(first, bucket + 1), waiting))
        first, waiting = bucket + 1, 0
    return joined


def _slots(counts: ClickCounts, members: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """Slots of the pairs of each bucket; None where there are few contexts."""
    contexts = len(counts.contexts)
    if not are_many(contexts):
        return None
    needed = slots_needed(counts)
    return tuple(rounded_slots(int(needed[own].max(initial=1)), contexts) for own in members)


def _largest(each: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The elementwise maximum of several tuples."""
    return tuple(map(max, zip(*each, strict=True)))


def _capacity(members: Sequence[np.ndarray], batches: int) -> tuple[int, ...]:
    """Most pairs of each bucket in one of `batches` batches."""
    return tuple(-(-len(each) // batches) for each in members)


def _order(counts: Slots, contexts: int, affine: bool) -> np.ndarray:
    """Code of each display in the sum (see `Bucket`), -1 after the last: (pairs, SWITCH_OVER).

    Rows with more displays than that are left at -1.
    """
    code, shown = counts.context, counts.unclicked
    if affine:
        code = np.concatenate([code, code + contexts], axis=1)
        shown = np.concatenate([shown, counts.clicks], axis=1)
    order = np.full((len(shown), SWITCH_OVER), -1, np.int32)
    total = shown.sum(axis=1)
    few = np.flatnonzero(total <= SWITCH_OVER)
    count = total[few]
    row = np.repeat(few, count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    order[row, place] = np.repeat(code[few].ravel(), shown[few].ravel())
    return order

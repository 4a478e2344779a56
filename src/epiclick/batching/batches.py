"""Mini-batches of pairs in shapes that never change, so that training compiles once.

Every batch takes the same share of each bucket (pairs with about as many unclicked displays), give
or take one pair; missing ones are filled up with pairs of weight 0. Each epoch deals every pair to
exactly one batch, in an order of its own. Where contexts are many, counts are laid out by slots, as
many in all batches of a bucket.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class Shapes:
    """Number and size of batches that several counts share, and with them compiled programs.

    Attributes:
        batches: number of batches in an epoch.
        capacity: room for pairs of each bucket in a batch.
        slots: of the pairs of each bucket, where contexts are many; None for as many as needed.
    """

    batches: int
    capacity: tuple[int, ...]
    slots: tuple[int, ...] | None = None

    @classmethod
    def common(
        cls, several: Sequence[ClickCounts], batches: int, *, affine: bool = False
    ) -> "Shapes":
        """The least shapes that suffice for each of several counts in so many batches."""
        members = [_by_bucket(counts, affine) for counts in several]
        each = [_capacity(own, batches) for own in members]
        slots = [_slots(counts, own) for counts, own in zip(several, members, strict=True)]
        known = [own for own in slots if own is not None]
        return cls(batches, _largest(each), _largest(known) if known else None)


@dataclass(frozen=True, eq=False)
class Batches:
    """How the pairs of some counts are dealt to batches.

    Attributes:
        counts: the pairs and their entries.
        batch_size: most pairs in a batch, unless shapes are given.
        weight: how often each pair counts, (pairs,) or (networks, pairs); 1 unless told.
        shapes: number and size of batches, if other counts are to have the same; what room is left
            is filled up.
        affine: whether batches are for an affine emission: pairs go to buckets by all of their
            displays, and `order` lists clicks as well.
        compact: whether counts are laid out by slots where contexts are many.
    """

    counts: ClickCounts
    batch_size: int
    weight: np.ndarray | None = None
    shapes: Shapes | None = None
    affine: bool = False
    compact: bool = True

    def __post_init__(self) -> None:
        """Refuse shapes that are too small."""
        if self.shapes is None:
            return
        room, need = self.shapes.capacity, _capacity(self._members, len(self))
        if len(room) != BUCKETS or any(a < b for a, b in zip(room, need, strict=False)):
            raise InputError(
                f"batches of {room} pairs, bucket by bucket, are given, but {len(self.counts):,} "
                f"pairs in {len(self)} batches need {need}; find the shapes of all counts that are "
                "to share them with Shapes.common"
            )
        given, own = self.shapes.slots, self._needed_slots
        if own is not None and given is not None and any(map(int.__lt__, given, own)):
            raise InputError(
                f"batches of {given} slots, bucket by bucket, are given, but pairs need {own}; "
                "find the shapes of all counts that are to share them with Shapes.common"
            )

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        if self.shapes is not None:
            return self.shapes.batches
        return -(-len(self.counts) // self.batch_size)

    @cached_property
    def displays(self) -> np.ndarray:
        """Displays of all pairs, weights counted: (networks,), (1,) where there is one weight."""
        if self.weight is None:
            return np.array([self.counts.total_displays])
        shown = np.bincount(self.counts.pair, self.counts.displays, len(self.counts))
        # row by row: all weights in float64 would need eight times their memory
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
    def _needed_slots(self) -> tuple[int, ...] | None:
        """Slots of each bucket; None where counts are of all contexts."""
        return _slots(self.counts, self._members) if self.compact else None

    @property
    def slots(self) -> tuple[int, ...] | None:
        """Slots of each bucket in all batches; None where counts are of all contexts."""
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
        """The pairs of each batch, (sum of capacities,), -1 where there is none.

        Pairs are in random order, or in their own without a generator.
        """
        dealt = [members if rng is None else rng.permutation(members) for members in self._members]
        ends = self._ends if len(self) else []
        for batch in range(len(self)):
            parts = []
            for members, end, capacity in zip(dealt, ends, self.capacity, strict=True):
                own = members[end[batch] : end[batch + 1]]
                parts.append(np.r_[own, np.full(capacity - len(own), -1)])
            yield np.concatenate(parts)

    @cached_property
    def _ends(self) -> list[np.ndarray]:
        """(batches + 1,) where the pairs of each batch end, for every bucket.

        What does not divide evenly goes to one batch after the other, through all buckets, so that
        no batch has more than one pair more than another.
        """
        turn, ends = 0, []
        for members in self._members:
            each, more = divmod(len(members), len(self))
            extra = (np.arange(len(self)) - turn) % len(self) < more
            ends.append(np.r_[0, np.cumsum(each + extra)])
            turn += more
        return ends

    def assemble(self, pairs: np.ndarray) -> PairBatch:
        """Counts of the pairs of one batch, in the order and shapes of `epoch`."""
        present = pairs >= 0
        slots = self.slots
        if slots is None:
            clicks, unclicked = self.dense(pairs)
            index = np.broadcast_to(np.arange(clicks.shape[1]), clicks.shape)
            laid_out = Slots(index, clicks, unclicked)
        else:
            laid_out = slots_of(self.counts, pairs, max(slots))
        order = _order(laid_out, len(self.counts.contexts), self.affine)
        own = 1.0 if self.weight is None else self.weight[..., np.where(present, pairs, 0)]
        weight = np.where(present, own, 0.0)
        buckets, start = [], 0
        for number, capacity in enumerate(self.capacity):
            part = slice(start, start + capacity)
            start += capacity
            if not capacity:
                continue
            size = None if slots is None else slots[number]
            index, clicks, unclicked = (each[part, :size] for each in laid_out)
            # arrays stay on the host until a program takes them
            buckets.append(
                Bucket(
                    clicks,  # type: ignore[arg-type]
                    unclicked,  # type: ignore[arg-type]
                    order[part, : WIDTHS[number]] if number < len(WIDTHS) else None,  # type: ignore[arg-type]
                    None if slots is None else index,  # type: ignore[arg-type]
                )
            )
        return PairBatch(tuple(buckets), weight)  # type: ignore[arg-type]

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
    start = np.searchsorted(counts.pair, np.arange(len(counts)))
    summed = counts.displays if affine else counts.displays - counts.clicks
    bucket = bucket_of(np.add.reduceat(summed, start))
    return [np.flatnonzero(bucket == i) for i in range(BUCKETS)]


def _slots(counts: ClickCounts, members: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """Slots of the pairs of each bucket; None where contexts are few."""
    contexts = len(counts.contexts)
    if not are_many(contexts):
        return None
    needed = slots_needed(counts)
    return tuple(rounded_slots(int(needed[own].max(initial=1)), contexts) for own in members)


def _largest(each: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The largest of several tuples, element by element."""
    return tuple(map(max, zip(*each, strict=True)))


def _capacity(members: Sequence[np.ndarray], batches: int) -> tuple[int, ...]:
    """Most pairs of each bucket in one of so many batches."""
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

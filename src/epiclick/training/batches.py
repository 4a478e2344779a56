"""Mini-batches of pairs in shapes that never change, so that training compiles once.

Every batch takes the same share of each bucket (pairs with about as many unclicked displays), give
or take one pair; missing ones are filled up with pairs of weight 0. Each epoch deals every pair to
exactly one batch, in an order of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.likelihood.pairs import BUCKETS, SWITCH_OVER, WIDTHS, Bucket, PairBatch, bucket_of


@dataclass(frozen=True)
class Shapes:
    """Number and size of batches that several counts share, and with them compiled programs.

    Attributes:
        batches: number of batches in an epoch.
        capacity: room for pairs of each bucket in a batch.
    """

    batches: int
    capacity: tuple[int, ...]

    @classmethod
    def common(cls, several: Sequence[ClickCounts], batches: int) -> "Shapes":
        """The least shapes that suffice for each of several counts in so many batches."""
        each = [_capacity(_by_bucket(counts), batches) for counts in several]
        return cls(batches, tuple(map(max, zip(*each, strict=True))))


@dataclass(frozen=True, eq=False)
class Batches:
    """How the pairs of some counts are dealt to batches.

    Attributes:
        counts: the pairs and their entries.
        batch_size: most pairs in a batch, unless shapes are given.
        weight: how often each pair counts, (pairs,) or (networks, pairs); 1 unless told.
        shapes: number and size of batches, if other counts are to have the same; what room is left
            is filled up.
    """

    counts: ClickCounts
    batch_size: int
    weight: np.ndarray | None = None
    shapes: Shapes | None = None

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
        return _by_bucket(self.counts)

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
        order = _order(unclicked)
        weight = np.where(present, 1.0 if self.weight is None else self.weight[..., index], 0.0)
        buckets, start = [], 0
        for width, capacity in zip((*WIDTHS, None), self.capacity, strict=True):
            part = slice(start, start + capacity)
            start += capacity
            if capacity:
                own = None if width is None else order[part, :width]
                # arrays stay on the host until a program takes them
                buckets.append(Bucket(clicks[part], unclicked[part], own))  # type: ignore[arg-type]
        return PairBatch(tuple(buckets), weight)  # type: ignore[arg-type]


def _by_bucket(counts: ClickCounts) -> list[np.ndarray]:
    """Pairs of each bucket."""
    start = np.searchsorted(counts.pair, np.arange(len(counts)))
    unclicked = np.add.reduceat(counts.displays - counts.clicks, start)
    bucket = bucket_of(unclicked)
    return [np.flatnonzero(bucket == i) for i in range(BUCKETS)]


def _capacity(members: Sequence[np.ndarray], batches: int) -> tuple[int, ...]:
    """Most pairs of each bucket in one of so many batches."""
    return tuple(-(-len(each) // batches) for each in members)


def _order(unclicked: np.ndarray) -> np.ndarray:
    """Context of each unclicked display, -1 after the last: (pairs, SWITCH_OVER).

    Rows with more displays than that are left at -1.
    """
    order = np.full((len(unclicked), SWITCH_OVER), -1, np.int32)
    total = unclicked.sum(axis=1)
    few = np.flatnonzero(total <= SWITCH_OVER)
    contexts = unclicked.shape[1]
    context = np.repeat(np.tile(np.arange(contexts), len(few)), unclicked[few].ravel())
    count = total[few]
    row = np.repeat(few, count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    order[row, place] = context
    return order

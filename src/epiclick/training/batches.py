"""Mini-batches of pairs in shapes that never change, so that training compiles once.

Every batch takes the same share of each bucket (pairs with about as many unclicked displays), give
or take one pair; missing ones are filled up with pairs of weight 0. Each epoch deals every pair to
exactly one batch, in an order of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.likelihood.pairs import BUCKETS, SWITCH_OVER, WIDTHS, Bucket, PairBatch, bucket_of


@dataclass(frozen=True, eq=False)
class Batches:
    """How the pairs of some counts are dealt to batches.

    Attributes:
        counts: the pairs and their entries.
        batch_size: most pairs in a batch.
        weight: (pairs,) how often each pair counts, 1 unless told.
    """

    counts: ClickCounts
    batch_size: int
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return -(-len(self.counts) // self.batch_size)

    @cached_property
    def _start(self) -> np.ndarray:
        """(pairs + 1,) where the entries of each pair begin."""
        return np.searchsorted(self.counts.pair, np.arange(len(self.counts) + 1))

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """Pairs of each bucket."""
        unclicked = np.add.reduceat(self.counts.displays - self.counts.clicks, self._start[:-1])
        bucket = bucket_of(unclicked)
        return [np.flatnonzero(bucket == i) for i in range(BUCKETS)]

    @cached_property
    def capacity(self) -> tuple[int, ...]:
        """Most pairs of each bucket in a batch."""
        return tuple(-(-len(members) // len(self)) for members in self._members)

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
        weight = np.where(present, 1.0 if self.weight is None else self.weight[index], 0.0)
        buckets, start = [], 0
        for width, capacity in zip((*WIDTHS, None), self.capacity, strict=True):
            part = slice(start, start + capacity)
            start += capacity
            if capacity:
                own = None if width is None else order[part, :width]
                # arrays stay on the host until a program takes them
                buckets.append(Bucket(clicks[part], unclicked[part], own))  # type: ignore[arg-type]
        return PairBatch(tuple(buckets), weight)  # type: ignore[arg-type]


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

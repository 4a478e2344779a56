r"""Which pairs a process computes, and in which parts.

Queries are divided among processes by a hash of their ids, the same for any part of a log. Batches
are those of a fit in one process: every process computes its own pairs of each, and what it finds
is added to what others find.

Sums in float32, of which training has some, depend on which pairs are added together, and hundreds
of steps amplify a difference in the last digit to one in the third. So where processes share a
fit, a large batch is divided into *shards*, by query. Each is computed by itself, in one process or
in several, and shards are added in float64 and in the same order:

.. math:: \Sigma(s_0, s_1, s_2, \dots) = \Sigma(s_0, s_2, \dots) + \Sigma(s_1, s_3, \dots),

so that with two processes, which have the even and the odd shards, the sum is the same to the last
bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from epiclick.collective import ALONE, Collective
from epiclick.data.counts import ClickCounts

LEAST_SHARD = 2_000
"""Pairs of a shard, about, at least. A step of 12,000 pairs took 17 % longer in 4 shards than
whole, and 32 % in 8."""


def shards_of(batch_size: int) -> int:
    """Number of shards of a batch: a power of 2.

    >>> [shards_of(size) for size in (100, 3_999, 4_000, 12_000)]
    [1, 1, 2, 4]
    """
    return 1 << max((batch_size // LEAST_SHARD).bit_length() - 1, 0)


@dataclass(frozen=True, eq=False)
class Share:
    """The pairs of one of several processes.

    Attributes:
        processes: that share the pairs.
        number: (pairs,) a number of each pair, below `shards` if there are some: which of them.
        shards: number of shards of a batch; None for pairs that are computed together.
    """

    processes: Collective
    number: np.ndarray
    shards: int | None = None

    @classmethod
    def of(
        cls, counts: ClickCounts, processes: Collective = ALONE, shards: int | None = None
    ) -> "Share":
        """Pairs divided by query."""
        first = np.flatnonzero(np.diff(counts.query, prepend=-1))
        ids = counts.query_id.take(first).to_numpy(zero_copy_only=False)
        number = pd.util.hash_array(ids, categorize=False) >> np.uint64(32)
        number = (number if shards is None else number % shards).astype(np.uint32)
        return cls(processes, number[counts.query], shards)

    def at(self, pairs: np.ndarray) -> "Share":
        """That of some pairs."""
        return replace(self, number=self.number[pairs])

    @cached_property
    def own(self) -> np.ndarray | None:
        """(pairs,) whether this process computes a pair; None if it computes all."""
        if self.processes.count == 1:
            return None
        return self.number % self.processes.count == self.processes.rank

    def own_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """The pairs of a batch that this process computes; without padding, unless it has all."""
        if self.own is None:
            return pairs
        present = pairs[pairs >= 0]
        return present[self.own[present]]

    def own_shards(self, pairs: np.ndarray) -> list[np.ndarray]:
        """The pairs of each shard of a batch that this process computes, without padding."""
        assert self.shards is not None
        present = pairs[pairs >= 0]
        shard = self.number[present]
        mine = range(self.processes.rank, self.shards, self.processes.count)
        return [present[shard == i] for i in mine]


def sum_shards(found: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of equal-sized arrays, one per shard, in the order of this module's formula."""
    if len(found) == 1:
        return found[0]
    return sum_shards(found[0::2]) + sum_shards(found[1::2])

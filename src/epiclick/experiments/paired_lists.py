"""The lists that two rankers show for the same pages, and what team draft makes of them."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from epiclick.comparison.slots import Slots
from epiclick.data.placement import kinds_of
from epiclick.experiments.team_draft import Drafted, as_lists, rounds, team_draft
from epiclick.fitted.state import FittedModel, given_of

PATTERNS = 8
"""Most ways in which the coins of a page are tossed to find what it is worth on average."""


@dataclass(frozen=True, eq=False)
class PairedLists:
    """Lists of two rankers for the same query and contexts, one pair per row.

    Attributes:
        one: (pairs, any) items of the first ranker, best first; -1 past the end.
        other: (pairs, any) the same of the second.
        given: (pairs, depth) given context of each slot; -1 past the end of the longer list.
        reach: (pairs, depth) share of pages that display the slot.
        weight: (pairs,) share of the pages that the pair stands for.
        query: (pairs,) number of the query.
    """

    one: np.ndarray
    other: np.ndarray
    given: np.ndarray
    reach: np.ndarray
    weight: np.ndarray
    query: np.ndarray

    @classmethod
    def of(cls, fitted: FittedModel, slots: Slots, item: np.ndarray) -> Self:
        """Pairs of the lists of rankers 0 and 1; `item` is that of each slot.

        Where a query has several lists, those of one ranker are paired with the other's in turn.
        """
        kind = kinds_of(given_of(fitted)[0], fitted.options.slot)[1]
        query = slots.query_id.dictionary_encode().indices.to_numpy()
        key = np.unique(query * (kind.max() + 1) + kind[slots.given], return_inverse=True)[1]
        own, order, first, count = [], [], [], []
        for ranker in (0, 1):
            rows = np.flatnonzero(slots.ranker == ranker)
            page = np.unique(slots.page[rows], return_inverse=True)[1]
            lists = as_lists(page, rows)  # slots of each list
            key_of = key[lists[:, 0]]
            order.append(np.argsort(key_of, kind="stable"))
            count.append(np.bincount(key_of, minlength=key.max() + 1))
            first.append(np.cumsum(count[-1]) - count[-1])
            own.append(lists)
        pairs = np.maximum(*count)
        chosen = np.repeat(np.arange(len(pairs)), pairs)
        turn = np.arange(len(chosen)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        slot = [
            lists[places[start[chosen] + turn % number[chosen]]]
            for lists, places, start, number in zip(own, order, first, count, strict=True)
        ]  # (pairs, any) of each ranker
        longer = _longer(*slot)
        share = np.bincount(key, np.where(slots.ranker == 0, slots.weight, 0) / _length(slots))
        one, other = (np.where(each < 0, -1, item[each]) for each in slot)
        return cls(
            one,
            other,
            given=np.where(longer < 0, -1, slots.given[longer]),
            reach=np.where(longer < 0, 0.0, slots.reach[longer]),
            weight=share[chosen] / pairs[chosen],
            query=query[slot[0][:, 0]],
        )

    @property
    def depth(self) -> int:
        """Slots of the longest page."""
        return self.given.shape[1]

    def drafted(self, pairs: np.ndarray, coins: np.ndarray) -> Drafted:
        """Interleaved pages of some pairs, as long as the longer list; coins are a row for each."""
        item, team = team_draft(self.one[pairs], self.other[pairs], coins, self.depth)
        beyond = self.given[pairs] < 0
        return Drafted(np.where(beyond, -1, item), np.where(beyond, -1, team))

    def coin_patterns(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Tosses of the coins of every pair, (pairs, rounds) each, that stand for all equally.

        All of them if they are few; else random ones, each with its opposite.
        """
        size, number = len(self.weight), rounds(self.depth)
        if 2**number <= PATTERNS:
            every = np.arange(2**number)[:, None] >> np.arange(number) & 1 == 1
            return [np.broadcast_to(one, (size, number)) for one in every]
        tossed = [self.coins(size, rng) for _ in range(PATTERNS // 2)]
        return [*tossed, *(~each for each in tossed)]

    def coins(self, pages: int, rng: np.random.Generator) -> np.ndarray:
        """Random tosses, (pages, rounds)."""
        return rng.random((pages, rounds(self.depth))) < 0.5


def _longer(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(pairs, depth) slots of the longer of two lists."""
    depth = max(one.shape[1], other.shape[1])
    padded = [
        np.pad(each, ((0, 0), (0, depth - each.shape[1])), constant_values=-1)
        for each in (one, other)
    ]
    return np.where(padded[0] < 0, padded[1], padded[0])


def _length(slots: Slots) -> np.ndarray:
    """(slots,) number of slots in the list of each."""
    return np.bincount(slots.page)[slots.page]

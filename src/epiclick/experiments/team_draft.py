"""Team-draft interleaving: two rankers take turns to fill a page with their best items.

In every round a coin decides who picks first; each ranker picks the best of its items that is not
on the page yet, and is credited with the clicks on it (Radlinski, Kurup and Joachims, 2008). Where
one ranker has nothing left, the other's items fill the page and are credited to nobody, so that a
longer list wins no clicks by its length.
"""

from typing import NamedTuple

import numpy as np

NOBODY = -1
"""Team of items that are credited to no ranker."""


class Drafted(NamedTuple):
    """Interleaved pages.

    Attributes:
        item: (pages, depth) number of the item in each slot; -1 below the end of a page.
        team: (pages, depth) 0 or 1, the ranker that picked it; `NOBODY` for neither.
    """

    item: np.ndarray
    team: np.ndarray

    @property
    def sign(self) -> np.ndarray:
        """(pages, depth) what a click adds to the first ranker's lead: 1, -1 or 0."""
        return np.where(self.team == NOBODY, 0, 1 - 2 * self.team)


def rounds(depth: int) -> int:
    """Coins that a page needs."""
    return -(-depth // 2)


def team_draft(one: np.ndarray, other: np.ndarray, coins: np.ndarray, depth: int) -> Drafted:
    """Interleave two rankers' lists, page by page.

    Args:
        one: (pages, any) numbers of the first ranker's items, best first; -1 past the end.
        other: the same of the second ranker.
        coins: (pages, rounds) whether the first ranker picks first.
        depth: slots per page.
    """
    pages = np.arange(len(one))
    lists, taken = (one, other), [one < 0, other < 0]
    item, team = np.full((len(one), depth), -1), np.full((len(one), depth), NOBODY)
    for slot in range(depth):
        left = [~each.all(axis=1) for each in taken]
        best = [np.argmin(each, axis=1) for each in taken]
        first = coins[:, slot // 2] == (slot % 2 == 0)  # whether it is the first ranker's turn
        both = left[0] & left[1]
        by_first = np.where(both, first, left[0])
        picked = np.where(by_first, one[pages, best[0]], other[pages, best[1]])
        item[:, slot] = np.where(left[0] | left[1], picked, -1)
        team[:, slot] = np.where(both, ~first, NOBODY)
        taken = [each | (own == picked[:, None]) for each, own in zip(taken, lists, strict=True)]
    return Drafted(item, team)


def as_lists(page: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(lists, depth) values of slots, (slots,) each, that are ordered by list; -1 past the end."""
    first = np.flatnonzero(np.diff(page, prepend=-1))
    length = np.diff(np.r_[first, len(page)])
    row = np.repeat(np.arange(len(first)), length)
    lists = np.full((len(first), int(length.max(initial=0))), -1)
    lists[row, np.arange(len(page)) - np.repeat(first, length)] = values
    return lists

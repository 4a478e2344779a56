r"""Who went on reading after the last click of a page: what pages show of it.

Down to the last click everything was read. Below it the items are a *tail*: either the user stopped
at the click, or went on and skipped them all. Given the relevance of the items and the probability
c of going on after the click, the user went on with probability

.. math:: w = \frac{c \prod_j (1 - \zeta_j)}{1 - c + c \prod_j (1 - \zeta_j)},

independently for all pages. And given who went on, relevances are independent Betas, because every
display was either read or not. A Gibbs sampler alternates between the two (`gibbs.py`). Pages with
the same tail after the same click are counted together.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from epiclick.data.page_lists import PageLists, same_rows


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the pages of a log show with certainty, and their tails.

    Attributes:
        clicks: (pairs,) number of clicks.
        read: (pairs,) displays that were certainly read.
        click_pair: (entries,) the pair of clicks after which users certainly went on.
        click_given: (entries,) their given context.
        click_count: (entries,) their number.
        last_pair: (tails,) the pair clicked last, above a tail.
        last_given: (tails,) its given context.
        below: (tails, depth) pairs of the tail; the number of pairs past its end.
        pages: (tails,) number of pages with this tail, in descending order.
    """

    clicks: np.ndarray
    read: np.ndarray
    click_pair: np.ndarray
    click_given: np.ndarray
    click_count: np.ndarray
    last_pair: np.ndarray
    last_given: np.ndarray
    below: np.ndarray
    pages: np.ndarray

    @classmethod
    def of(cls, lists: PageLists, pairs: int) -> Self:
        """The evidence in lists of pages, of so many pairs."""
        depth = lists.pair.shape[1]
        place = np.arange(depth)
        last = np.where(lists.clicked, place, -1).max(axis=1, initial=-1)  # (lists,)
        length = lists.shown.sum(axis=1)
        clicked = lists.clicked & lists.shown
        is_read = lists.shown & ((place <= last[:, None]) | (last < 0)[:, None])
        pages = np.broadcast_to(lists.pages[:, None], lists.pair.shape)

        def total(mask: np.ndarray) -> np.ndarray:
            return np.bincount(lists.pair[mask], pages[mask], pairs).astype(np.int64)

        # at the end of a page going on and stopping look the same, and both end it
        before_last = clicked & (place < last[:, None])
        entry = np.stack([lists.pair[before_last], lists.given[before_last]], axis=1)
        kinds, group = np.unique(entry, axis=0, return_inverse=True)
        number = np.bincount(group.reshape(-1), pages[before_last], len(kinds)).astype(np.int64)
        tailed = np.flatnonzero((last >= 0) & (last < length - 1))
        index = last[tailed]
        below = np.full((len(tailed), max(depth - 1, 1)), pairs)
        if len(tailed):
            at = index[:, None] + 1 + np.arange(below.shape[1])
            inside = at < length[tailed][:, None]
            found = lists.pair[tailed[:, None], np.minimum(at, depth - 1)]
            below = np.where(inside, found, pairs)
        clicked_last = (lists.pair[tailed, index], lists.given[tailed, index])
        first, tail = same_rows(np.column_stack([*clicked_last, below]))
        users = np.bincount(tail, lists.pages[tailed], len(first)).astype(np.int64)
        order = np.argsort(-users, kind="stable")
        first = first[order]
        return cls(
            clicks=total(clicked),
            read=total(is_read),
            click_pair=kinds[:, 0],
            click_given=kinds[:, 1],
            click_count=number,
            last_pair=clicked_last[0][first],
            last_given=clicked_last[1][first],
            below=below[first],
            pages=users[order],
        )

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.clicks)

    @cached_property
    def gone_on(self) -> np.ndarray:
        """(pairs,) clicks after which users certainly went on."""
        return np.bincount(self.click_pair, self.click_count, self.pairs).astype(np.int64)

    @cached_property
    def skips(self) -> csr_array:
        """(tails, pairs) which pairs are in each tail."""
        inside = self.below < self.pairs
        ends = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        shape = (len(self.pages), self.pairs)
        return csr_array((np.ones(ends[-1]), self.below[inside], ends), shape)

    @cached_property
    def last(self) -> csr_array:
        """(tails, pairs) which pair was clicked last."""
        tails = len(self.pages)
        where = (np.ones(tails), self.last_pair, np.arange(tails + 1))
        return csr_array(where, (tails, self.pairs))

    @cached_property
    def skipped(self) -> np.ndarray:
        """Pairs that are in any tail: only their relevance tells who went on."""
        return np.unique(self.skips.indices)

    @cached_property
    def clicked_last(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs above any tail, and for every tail, (tails,), which of them that is."""
        found, which = np.unique(self.last_pair, return_inverse=True)
        return found, which.reshape(-1)

    @cached_property
    def _by_pair(self) -> tuple[csr_array, csr_array]:
        """`skips` and `last`, (pairs, tails) each."""
        return self.skips.T.tocsr(), self.last.T.tocsr()

    def completed(self, went_on: np.ndarray) -> "Completed":
        """Counts of items if on so many pages, (..., tails), users went on below the last click."""

        def by_pair(amount: np.ndarray, where: csr_array) -> np.ndarray:
            return np.asarray(where @ amount.T).T.astype(np.int64, order="C")

        skips, last = self._by_pair
        on = by_pair(went_on, last)
        stopped = by_pair(self.pages, last) - on
        return Completed(self.read + by_pair(went_on, skips), stopped, self.gone_on + on)


class Completed(NamedTuple):
    """Counts of items if it were known who went on; (..., pairs) each.

    Attributes:
        read: displays that were read.
        stopped: clicks after which users stopped.
        went_on: clicks after which they went on.
    """

    read: np.ndarray
    stopped: np.ndarray
    went_on: np.ndarray


def chance_of_going_on(stay: np.ndarray, log_skipped: np.ndarray) -> np.ndarray:
    """w, the probability that users with a tail went on; any shape.

    Args:
        stay: probability of going on after the click.
        log_skipped: logarithm of the probability of skipping the whole tail when it is read.
    """
    skipped = np.exp(log_skipped)
    rest = 1 - stay
    both = rest + stay * skipped
    return np.divide(stay * skipped, both, out=np.zeros_like(both), where=both > 0)


def log_skips(evidence: Evidence, relevance: np.ndarray) -> np.ndarray:
    """(..., tails) log-probability of skipping each tail, from relevance (..., pairs)."""
    with np.errstate(divide="ignore"):
        log_rest = np.log1p(-relevance)
    return np.ascontiguousarray((evidence.skips @ log_rest.T).T)

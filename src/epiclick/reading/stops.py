r"""Who went on reading after the last click of a page: evidence, and draws given everything else.

Down to the last click everything was read. Below it the items are a *tail*: either the user stopped
at the click, or went on and skipped them all. Given the relevance of the items and the probability
c of going on after the click, the user went on with probability

.. math:: w = \frac{c \prod_j (1 - \zeta_j)}{1 - c + c \prod_j (1 - \zeta_j)},

independently for all pages. And given who went on, relevances are independent Betas, because every
display was either read or not. A Gibbs sampler alternates between the two. Pages with the same tail
after the same click are counted together.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from epiclick.data.page_lists import PageLists


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
        pages: (tails,) number of pages with this tail.
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
        return cls(
            clicks=total(clicked),
            read=total(is_read),
            click_pair=kinds[:, 0],
            click_given=kinds[:, 1],
            click_count=number,
            last_pair=lists.pair[tailed, index],
            last_given=lists.given[tailed, index],
            below=below,
            pages=lists.pages[tailed],
        )

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.clicks)

    @cached_property
    def gone_on(self) -> np.ndarray:
        """(pairs,) clicks after which users certainly went on."""
        return np.bincount(self.click_pair, self.click_count, self.pairs).astype(np.int64)

    def completed(self, went_on: np.ndarray) -> "Completed":
        """Counts of items if on so many pages (tails,) users went on below their last click."""
        size = self.pairs
        more = np.broadcast_to(went_on[:, None], self.below.shape)
        read = self.read + np.bincount(self.below.ravel(), more.ravel(), size + 1)[:-1]
        stopped = np.bincount(self.last_pair, self.pages - went_on, size)
        on = self.gone_on + np.bincount(self.last_pair, went_on, size)
        return Completed(read.astype(np.int64), stopped.astype(np.int64), on.astype(np.int64))


class Completed(NamedTuple):
    """Counts of items if it were known who went on; (pairs,) each.

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
    """(tails,) logarithm of the probability of skipping each tail, from relevance (pairs,)."""
    with np.errstate(divide="ignore"):
        log_rest = np.append(np.log1p(-relevance), 0.0)
    return log_rest[evidence.below].sum(axis=1)


class Shapes(NamedTuple):
    """Betas of a channel, (pairs,) each, before any outcome."""

    alpha: np.ndarray
    beta: np.ndarray

    def mean(self, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
        """The expectation of each probability given its outcomes."""
        return (self.alpha + successes) / (self.alpha + self.beta + trials)

    def draw(
        self, successes: np.ndarray, trials: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """A draw of each probability given its outcomes."""
        return rng.beta(self.alpha + successes, self.beta + (trials - successes))


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known about the items and about going on before the clicks.

    Attributes:
        attraction: Betas of relevance.
        satisfaction: Betas of the probability that a click on an item satisfies; None if going on
            depends on the context.
        going_on: (given contexts,) probability of going on after a click there; None if it depends
            on the item.
    """

    attraction: Shapes
    satisfaction: Shapes | None = None
    going_on: np.ndarray | None = None


@dataclass(eq=False)
class Chain:
    """A Gibbs chain over who went on.

    Attributes:
        evidence: what the pages show.
        went_on: (tails,) number of pages on which users went on.
        rng: of its draws.
    """

    evidence: Evidence
    went_on: np.ndarray
    rng: np.random.Generator

    @classmethod
    def start(cls, evidence: Evidence, rng: np.random.Generator, prior: Prior) -> Self:
        """Users went on as expected if half of them were known to."""
        half = evidence.completed(evidence.pages / 2)
        zeta = prior.attraction.mean(evidence.clicks, half.read)
        if prior.satisfaction is not None:
            trials = half.stopped + half.went_on
            stay = 1 - prior.satisfaction.mean(half.stopped, trials)[evidence.last_pair]
        else:
            assert prior.going_on is not None
            stay = prior.going_on[evidence.last_given]
        chance = chance_of_going_on(stay, log_skips(evidence, zeta))
        return cls(evidence, rng.binomial(evidence.pages, chance), rng)

    def sweep(self, prior: Prior, times: int = 1) -> Completed:
        """Draw relevance given who went on, and who went on given relevance."""
        evidence, rng = self.evidence, self.rng
        for _ in range(times):
            known = evidence.completed(self.went_on)
            zeta = prior.attraction.draw(evidence.clicks, known.read, rng)
            if prior.satisfaction is not None:
                trials = known.stopped + known.went_on
                stay = 1 - prior.satisfaction.draw(known.stopped, trials, rng)[evidence.last_pair]
            else:
                assert prior.going_on is not None
                stay = prior.going_on[evidence.last_given]
            chance = chance_of_going_on(stay, log_skips(evidence, zeta))
            self.went_on = rng.binomial(evidence.pages, chance)
        return evidence.completed(self.went_on)

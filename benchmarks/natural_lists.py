"""Lists that real pages showed: their clicks per page, and which are held out of which fit."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData, PageLog


@dataclass(frozen=True, eq=False)
class ShownLists:
    """The distinct lists of training and later pages, all of one length.

    Attributes:
        items: (lists, depth) pairs from top to bottom.
        query: (lists,).
        train: (training pages,) list of each.
        test: (later pages,) list of each.
    """

    items: np.ndarray
    query: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, data: BenchmarkData) -> Self:
        """Find the lists."""
        assert data.train.shown.all()
        assert data.test.shown.all()
        pages = np.concatenate([data.train.pair, data.test.pair])
        items, index = np.unique(pages, axis=0, return_inverse=True)
        train, test = np.split(index.ravel(), [len(data.train)])
        return cls(items, data.query_of[items[:, 0]], train, test)

    def __len__(self) -> int:
        """Number of lists."""
        return len(self.items)

    def folds(self, folds: int, rng: np.random.Generator) -> np.ndarray:
        """(lists,) fold of each; the lists of a query are dealt evenly, in random order."""
        found = np.empty(len(self), np.int64)
        for query in np.unique(self.query):
            own = np.flatnonzero(self.query == query)
            found[rng.permutation(own)] = (np.arange(len(own)) + rng.integers(folds)) % folds
        return found


@dataclass(frozen=True, eq=False)
class MeanClicks:
    r"""Observed clicks per page, and how far they may be from the expected ones by chance.

    With y_j the clicks of page j, :math:`m = \sum_j y_j / n` and
    :math:`s^2 = \sum_j (y_j - m)^2 / (n (n - 1))`: from page to page, so that it does not matter
    how the clicks of one page depend on each other. (m - E y) / s is Student's t with n - 1 degrees
    of freedom, nearly.

    Attributes:
        mean: m.
        error: s.
        degrees: of freedom.
    """

    mean: np.ndarray
    error: np.ndarray
    degrees: np.ndarray

    @classmethod
    def of(cls, pages: PageLog, index: np.ndarray, lists: int, depth: int) -> Self:
        """Of the first positions, by list, given the list of each page; NaN below two pages."""
        clicks = pages.clicked[:, :depth].sum(axis=1).astype(float)
        number = np.bincount(index, minlength=lists).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.bincount(index, clicks, lists) / number
            squares = np.bincount(index, (clicks - mean[index]) ** 2, lists)
            error = np.sqrt(squares / (number * (number - 1)))
        return cls(mean, error, number - 1)

    def at(self, where: np.ndarray) -> "MeanClicks":
        """Of some lists."""
        return MeanClicks(self.mean[where], self.error[where], self.degrees[where])

    def minus(self, other: "MeanClicks") -> "MeanClicks":
        """The difference of two independent means, with Welch's degrees of freedom."""
        one, two = self.error**2, other.error**2
        degrees = (one + two) ** 2 / (one**2 / self.degrees + two**2 / other.degrees)
        return MeanClicks(self.mean - other.mean, np.sqrt(one + two), degrees)

    def judged(self, least: int) -> np.ndarray:
        """(lists,) whether there are enough pages, whose clicks vary."""
        return (self.degrees >= least - 1) & (self.error > 0)


@dataclass(frozen=True, eq=False)
class Overlap:
    """How far a held-out list is from the pages that a model was fitted to; (lists,) each.

    Attributes:
        nearest: positions whose item differs from that in the most similar list of the query.
        average: the same on average over the query's pages.
        unseen: positions whose item was on none of the pages.
        moved: positions whose item was on pages, but never there.
    """

    nearest: np.ndarray
    average: np.ndarray
    unseen: np.ndarray
    moved: np.ndarray

    @classmethod
    def of(cls, lists: np.ndarray, pages: np.ndarray) -> Self:
        """Of (lists, depth) and the (pages, depth) of the same query."""
        shown, number = np.unique(pages, axis=0, return_counts=True)
        differ = (lists[:, None] != shown).sum(axis=2)  # (lists, shown)
        unseen = ~np.isin(lists, shown)
        never_there = (lists[:, None] != shown).all(axis=1)
        return cls(
            differ.min(axis=1),
            differ @ number / number.sum(),
            unseen.sum(axis=1),
            (never_there & ~unseen).sum(axis=1),
        )

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Several, one after the other."""
        names = (each.name for each in fields(cls))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

"""Items worth a look, out of any number of them: all pass by once, few are kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.report.facts.absent import Absent
from epiclick.report.facts.coverage import CoverageCount, ItemCoverage
from epiclick.report.facts.judged import Judged, how_judged, judged
from epiclick.report.facts.sources import Sources

MOST_ROWS = 2_000
"""Items in the page."""

MOST_OF_A_KIND = 800
"""The most uncertain among them, and the most underrated; others are drawn at random."""

MOST_TEXT = 120  # characters of an id that are shown
CELLS = 40  # of relevance and of the width of its interval, from 0 to 1


@dataclass(frozen=True)
class ItemRow:
    """What is known of an item.

    Attributes:
        query: its query.
        doc: its document.
        mean: expected relevance.
        low: lower end of its interval; NaN without one.
        high: upper end.
        displays: how often it was shown; None without a log.
        clicks: how often it was clicked; None likewise.
    """

    query: str
    doc: str
    mean: float
    low: float
    high: float
    displays: int | None
    clicks: int | None

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.high - self.low

    @property
    def underrated(self) -> float | None:
        """How far its relevance surely lies above its click rate; None without a log."""
        if not self.displays or self.clicks is None:
            return None
        sure = self.mean if np.isnan(self.low) else self.low
        return sure - self.clicks / self.displays


@dataclass(frozen=True, eq=False)
class ItemSample:
    """Items.

    Attributes:
        by: what they are judged by, in words.
        total: how many there are.
        rows: those that are shown.
        uncertain: how many of the rows are the most uncertain of all.
        underrated: how many are the most underrated of all.
        has_intervals: whether the model says how sure it is.
        has_clicks: whether displays and clicks are known.
        cells: (CELLS, CELLS) number of all items by relevance and width of its interval.
        coverage: of the truth, where that is known.
    """

    by: str
    total: int
    rows: tuple[ItemRow, ...]
    uncertain: int
    underrated: int
    has_intervals: bool
    has_clicks: bool
    cells: np.ndarray
    coverage: ItemCoverage | None


class Best:
    """The rows of the highest scores that have passed by."""

    def __init__(self, most: int) -> None:
        """Keep that many."""
        self.most = most
        self.score = np.empty(0)
        self.number = np.empty(0, np.int64)
        self.rows: list[ItemRow] = []

    def add(self, score: np.ndarray, first: int, part: Judged) -> None:
        """Take in scores (items,) of items numbered from `first`; NaN is never kept."""
        own = np.flatnonzero(~np.isnan(score))
        own = own[np.argsort(-score[own], kind="stable")[: self.most]]
        joined = np.concatenate([self.score, score[own]])
        keep = np.argsort(-joined, kind="stable")[: self.most]
        fresh = own[keep[keep >= len(self.score)] - len(self.score)]
        rows = dict(zip(fresh.tolist(), _rows(part, fresh), strict=True))
        numbers = np.concatenate([self.number, first + own])
        before = len(self.score)
        self.rows = [
            self.rows[i] if i < before else rows[int(own[i - before])] for i in keep.tolist()
        ]
        self.score, self.number = joined[keep], numbers[keep]


def item_sample(sources: Sources) -> ItemSample | Absent:
    """Let all items pass by; keep the most uncertain, the most underrated and some others."""
    by = how_judged(sources)
    if isinstance(by, Absent):
        return by
    rng = np.random.default_rng(0)
    uncertain, underrated = Best(MOST_OF_A_KIND), Best(MOST_OF_A_KIND)
    others = Best(MOST_ROWS)
    cells, total = np.zeros((CELLS, CELLS), np.int64), 0
    coverage = CoverageCount.of(sources)
    has_intervals = has_clicks = False
    for part in judged(sources):
        width = part.high - part.low
        uncertain.add(width, total, part)
        if part.displays is not None and part.clicks is not None:
            has_clicks = True
            sure = np.where(np.isnan(part.low), part.mean, part.low)
            underrated.add(sure - part.clicks / part.displays, total, part)
        others.add(rng.random(len(part.mean)), total, part)
        if not np.isnan(width).all():
            has_intervals = True
            cells += _histogram(part.mean, width)
        if coverage is not None:
            coverage.add(part)
        total += len(part.mean)
    chosen: dict[int, ItemRow] = {}
    for best in (uncertain, underrated, others):
        for number, row in zip(best.number.tolist(), best.rows, strict=True):
            if len(chosen) < MOST_ROWS:
                chosen.setdefault(number, row)
    return ItemSample(
        by=by,
        total=total,
        rows=tuple(chosen.values()),
        uncertain=len(uncertain.rows),
        underrated=len(underrated.rows),
        has_intervals=has_intervals,
        has_clicks=has_clicks,
        cells=cells,
        coverage=None if coverage is None else coverage.found(),
    )


def _histogram(mean: np.ndarray, width: np.ndarray) -> np.ndarray:
    """(CELLS, CELLS) number of items by mean and width."""
    ends = [[0, 1], [0, 1]]
    return np.histogram2d(mean, width, bins=CELLS, range=ends)[0].astype(np.int64)


def _rows(part: Judged, index: np.ndarray) -> Iterator[ItemRow]:
    """Some items of a chunk."""
    queries, docs = (ids.take(pa.array(index)).to_pylist() for ids in (part.query_id, part.doc_id))
    for i, query, doc in zip(index.tolist(), queries, docs, strict=True):
        yield ItemRow(
            short(query),
            short(doc),
            mean=float(part.mean[i]),
            low=float(part.low[i]),
            high=float(part.high[i]),
            displays=None if part.displays is None else int(part.displays[i]),
            clicks=None if part.clicks is None else int(part.clicks[i]),
        )


def short(value: object) -> str:
    """An id as text, its end cut off where it is very long."""
    text = str(value)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"

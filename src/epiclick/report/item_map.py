"""Relevance: a map of all items, and a table of those worth looking at."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from epiclick.evaluation.item_chunks import ItemRelevance, item_chunks
from epiclick.evaluation.truth import CoverageCount, ItemCoverage
from epiclick.report.chart import Axis, Chart, Layer, short
from epiclick.report.markup import Absent, data, escape, figure, missing, number, paragraph, section
from epiclick.report.report_sources import NO_FEATURES, Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

MOST_ROWS = 2_000
"""Items in the table."""

MOST_OF_A_KIND = 800
"""The most uncertain of them, and the most underrated; the others are drawn at random."""

MOST_TEXT = 120  # characters of an id that are shown
CELLS = 40  # of relevance and of the width of its interval, from 0 to 1


COLUMNS = (
    *("query", "item", "relevance", "low", "high", "width"),
    *("shown", "mean position", "clicked", "underrated"),
)
FORMATS = ("text", "text", *["fixed"] * 4, "count", "tenths", "count", "fixed")
SHOWN_AS = {"fixed": ".3f", "tenths": ".1f", "count": ","}
WIDTH, UNDERRATED = COLUMNS.index("width"), COLUMNS.index("underrated")
FALLBACK = 25  # rows in the HTML itself, for when no script runs
MOST_DOTS = 400  # single items on the map


@dataclass(frozen=True)
class ItemRow:
    """What is known about an item.

    Attributes:
        query: its query.
        doc: its document.
        mean: expected relevance.
        low: lower end of its interval; NaN without one.
        high: upper end.
        displays: how often it was shown; None without a log.
        clicks: how often it was clicked; None without a log.
        position: mean position where it was shown; None where unknown.
    """

    query: str
    doc: str
    mean: float
    low: float
    high: float
    displays: int | None
    clicks: int | None
    position: float | None = None

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low

    @property
    def underrated(self) -> float | None:
        """Lower end of its relevance minus its click rate; None without a log."""
        if not self.displays or self.clicks is None:
            return None
        least = self.mean if np.isnan(self.low) else self.low
        return least - self.clicks / self.displays


@dataclass(frozen=True, eq=False)
class ItemSample:
    """The items on the page.

    Attributes:
        by: what relevance is estimated from.
        total: number of all items.
        rows: those in the table.
        uncertain: how many rows were chosen as the most uncertain of all.
        underrated: how many were chosen as the most underrated of all.
        has_intervals: whether the model reports its uncertainty.
        has_clicks: whether displays and clicks are known.
        cells: (CELLS, CELLS) number of all items by relevance and width of its interval.
        coverage: of the intervals, where the truth is known.
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


def item_sample(sources: Sources) -> ItemSample | Absent:
    """Go through all items; keep the most uncertain, the most underrated and some at random."""
    by = _estimated_from(sources)
    if isinstance(by, Absent):
        return by
    rng = np.random.default_rng(0)
    uncertain, underrated = TopItems(MOST_OF_A_KIND), TopItems(MOST_OF_A_KIND)
    others = TopItems(MOST_ROWS)
    cells, total = np.zeros((CELLS, CELLS), np.int64), 0
    coverage = CoverageCount.of(sources.fitted, sources.truth)
    has_intervals = has_clicks = False
    level = sources.model.level
    for part in item_chunks(sources.fitted, sources.log, sources.features, level):
        width = part.high - part.low
        uncertain.add(width, total, part)
        if part.displays is not None and part.clicks is not None:
            has_clicks = True
            least = np.where(np.isnan(part.low), part.mean, part.low)
            underrated.add(least - part.clicks / part.displays, total, part)
        others.add(rng.random(len(part.mean)), total, part)
        if not np.isnan(width).all():
            has_intervals = True
            cells += _histogram(part.mean, width)
        if coverage is not None:
            coverage.add(part)
        total += len(part.mean)
    chosen: dict[int, ItemRow] = {}
    for top in (uncertain, underrated, others):
        for row_number, row in zip(top.number.tolist(), top.rows, strict=True):
            if len(chosen) < MOST_ROWS:
                chosen.setdefault(row_number, row)
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


class TopItems:
    """The items with the highest scores of a stream."""

    def __init__(self, most: int) -> None:
        """Keep at most this many."""
        self.most = most
        self.score = np.empty(0)
        self.number = np.empty(0, np.int64)
        self.rows: list[ItemRow] = []

    def add(self, score: np.ndarray, first: int, part: ItemRelevance) -> None:
        """Add items of scores (items,), numbered from `first`; NaN is never kept."""
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


def _histogram(mean: np.ndarray, width: np.ndarray) -> np.ndarray:
    """(CELLS, CELLS) number of items by mean and width."""
    ends = [[0, 1], [0, 1]]
    return np.histogram2d(mean, width, bins=CELLS, range=ends)[0].astype(np.int64)


def _rows(part: ItemRelevance, index: np.ndarray) -> Iterator[ItemRow]:
    """Some items of a chunk."""
    queries, docs = (ids.take(pa.array(index)).to_pylist() for ids in (part.query_id, part.doc_id))
    for i, query, doc in zip(index.tolist(), queries, docs, strict=True):
        yield ItemRow(
            short_id(query),
            short_id(doc),
            mean=float(part.mean[i]),
            low=float(part.low[i]),
            high=float(part.high[i]),
            displays=None if part.displays is None else int(part.displays[i]),
            clicks=None if part.clicks is None else int(part.clicks[i]),
            position=None if part.position is None else float(part.position[i]),
        )


def _estimated_from(sources: Sources) -> str | Absent:
    """What relevance is estimated from; or what is missing."""
    fitted = sources.fitted
    if not sources.can_judge:
        return NO_FEATURES
    if sources.log is not None:
        if not fitted.relevance_head.learns_from_clicks:
            return "its features (a pointwise model does not use an item's own clicks)"
        return "its own clicks" + (" and its features" if fitted.features is not None else "")
    return "its features alone" if fitted.features is not None else "its own clicks"


def short_id(value: object) -> str:
    """An id as text, cut off where it is very long."""
    text = str(value)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def items_section(report: "Report") -> str:
    """Map and table."""
    found, title = report.items, "How relevant each item is"
    if isinstance(found, Absent):
        return section("relevance", title, missing(found))
    meaning = f"the probability of a click on an item shown at {report.bias.reference}"
    if report.bias.is_free:
        meaning = "how much an item attracts clicks, on an arbitrary scale"
    parts = [
        paragraph(f"Relevance is {meaning}, estimated from {found.by}."),
        _map(found, report.bias.level) if found.has_intervals else missing(_no_intervals()),
    ]
    if not found.has_clicks:
        parts.append(missing(Absent("Finding underrated items needs their clicks.", "LOG")))
    return section("relevance", title, *parts, _table(found))


def _no_intervals() -> Absent:
    return Absent(
        "This model has point estimates of relevance only, so there is no map of uncertainty. The "
        "default of `epiclick fit` has intervals."
    )


def _map(found: ItemSample, level: float) -> str:
    """All items counted in cells, some as dots."""
    column, row = np.nonzero(found.cells)
    counts = found.cells[column, row].tolist()
    size = 1 / CELLS
    # the rows begin with the extreme items and end with those drawn at random
    dots = found.rows[-MOST_DOTS:]
    which = f"{len(dots):,} items drawn at random"
    if len(found.rows) == found.total:
        dots = found.rows[:: max(len(found.rows) // MOST_DOTS, 1)]
        which = f"{len(dots):,} single items"
    chart = Chart(
        "map",
        "Relevance and its uncertainty",
        "Every item is in this map: further right is more relevant, higher up is more uncertain (a "
        f"wider {level:.0%} interval); point at a dot to see a single item.",
        Axis("expected relevance", "number", low=0, high=1),
        Axis("width of the interval", "number", low=0, high=1),
        (
            Layer(
                "cells",
                f"all {found.total:,} items, darker where there are more",
                ((column + 0.5) * size).tolist(),
                ((row + 0.5) * size).tolist(),
                [f"{each:,} {'item' if each == 1 else 'items'} here" for each in counts],
                low=counts,
                size=size,
            ),
            Layer(
                "points",
                which,
                [item.mean for item in dots],
                [item.width for item in dots],
                [_tooltip(item) for item in dots],
                colour="c1",
            ),
        ),
    )
    return figure(chart)


def _tooltip(item: ItemRow) -> str:
    text = f"query {item.query}, item {item.doc}\nrelevance {number(item.mean)} " + (
        f"({number(item.low)} to {number(item.high)})"
    )
    if item.displays is not None:
        at = "" if item.position is None else f", at position {item.position:.1f} on average"
        text += f"\nshown {item.displays:,} times{at}, clicked {item.clicks:,}"
    return text


def _table(found: ItemSample) -> str:
    """The table: its first rows as HTML, all rows as data for the script."""
    first = UNDERRATED if found.has_clicks else WIDTH if found.has_intervals else 2
    rows = [_values(item) for item in found.rows]
    rows.sort(key=lambda row: -_order(row[first]))
    shown = [i for i in range(len(COLUMNS)) if _has_column(found, i)]
    rows = [[row[i] for i in shown] for row in rows]
    formats = [FORMATS[i] for i in shown]
    head = "".join(
        f'<th scope="col" class="{"id" if FORMATS[i] == "text" else "number"}">'
        f'<button type="button">{COLUMNS[i]}</button></th>'
        for i in shown
    )
    body = "".join("<tr>" + "".join(map(_cell, row, formats)) + "</tr>" for row in rows[:FALLBACK])
    orders = {"Most underrated first": UNDERRATED, "Most uncertain first": WIDTH}
    buttons = "".join(
        f'<button type="button" data-order="{shown.index(i)}">{label}</button>'
        for label, i in orders.items()
        if i in shown
    )
    return (
        f"{paragraph(_table_intro(found))}"
        '<div class="items" data-items="items"><div class="controls" hidden>'
        '<input type="search" placeholder="Search queries and items" '
        f'aria-label="Search queries and items">{buttons}</div>'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        '<div class="pager"><button type="button">Previous</button>'
        '<span class="count" role="status"></span>'
        '<button type="button">Next</button></div></div>'
        + data("items", {"formats": formats, "first": shown.index(first), "rows": rows})
    )


def _table_intro(found: ItemSample) -> str:
    """Which items are in the table, and what its last column means."""
    intro = f"All {found.total:,} items."
    if len(found.rows) < found.total:
        chosen = [
            f"the {count:,} most {name}"
            for name, count in (("uncertain", found.uncertain), ("underrated", found.underrated))
            if count
        ]
        kinds = ", ".join([*chosen, "others drawn at random"])
        intro = f"A sample of {len(found.rows):,} of {found.total:,} items: {kinds}."
    if found.has_clicks:
        least = "the lower end of an item's relevance" if found.has_intervals else "its relevance"
        intro += (
            f" Underrated is how far {least} is above its observed click rate: the higher, the "
            "more the item deserves a better position than it had."
        )
    return intro


def _has_column(found: ItemSample, column: int) -> bool:
    if COLUMNS[column] in ("low", "high", "width"):
        return found.has_intervals
    if COLUMNS[column] == "mean position":
        return any(item.position is not None for item in found.rows)
    return found.has_clicks or COLUMNS[column] not in ("shown", "clicked", "underrated")


def _values(item: ItemRow) -> list[str | float | int | None]:
    numbers = (item.mean, item.low, item.high, item.width)
    counted = (item.displays, short(item.position), item.clicks, short(item.underrated))
    return [item.query, item.doc, *map(short, numbers), *counted]


def _order(value: str | float | int | None) -> float:
    """A value to sort by; unknown values come last."""
    return value if isinstance(value, float | int) else float("-inf")


def _cell(value: str | float | int | None, kind: str) -> str:
    if kind == "text":
        return f'<td class="id">{escape(str(value))}</td>'
    text = "–" if value is None else format(value, SHOWN_AS[kind])
    return f'<td class="number">{text}</td>'

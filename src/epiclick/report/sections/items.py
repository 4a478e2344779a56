"""Relevance: a map of all items, and a table of those worth a look."""

from html import escape

import numpy as np

from epiclick.report.chart import Axis, Chart, Layer, short
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.items import CELLS, ItemRow, ItemSample
from epiclick.report.gather import Report
from epiclick.report.markup import data, figure, missing, number, paragraph, section

COLUMNS = ("query", "item", "relevance", "low", "high", "width", "shown", "clicked", "underrated")
FORMATS = ("text", "text", *["fixed"] * 4, "count", "count", "fixed")
WIDTH, UNDERRATED = COLUMNS.index("width"), COLUMNS.index("underrated")
FALLBACK = 25  # rows that stand in the page itself, for when no script runs
MOST_DOTS = 400


def items_section(report: Report) -> str:
    """Map and table."""
    found = report.items
    title = "How relevant each item is"
    if isinstance(found, Absent):
        return section("relevance", title, missing(found))
    meaning = f"the probability of a click if the item were shown at {report.bias.reference}"
    if report.bias.is_free:
        meaning = "how much an item attracts clicks, on a scale of its own"
    parts = [
        paragraph(f"Relevance is {meaning}. Items are judged by {found.by}."),
        _map(found, report.bias.level) if found.has_intervals else missing(_no_intervals()),
    ]
    if not found.has_clicks:
        parts.append(
            missing(
                Absent("Which items are underrated cannot be told without their clicks.", "LOG")
            )
        )
    return section("relevance", title, *parts, _table(found))


def _no_intervals() -> Absent:
    return Absent(
        "This model has one number for the relevance of an item and cannot say how sure it is, so "
        "there is no map of uncertainty. The default of `epiclick fit` can."
    )


def _map(found: ItemSample, level: float) -> str:
    """All items in cells, some as dots."""
    column, row = np.nonzero(found.cells)
    many = found.cells[column, row].tolist()
    size = 1 / CELLS
    # the extreme ones come first, and those drawn at random last
    dots = found.rows[-MOST_DOTS:]
    which = f"{len(dots):,} items drawn at random"
    if len(found.rows) == found.total:
        dots = found.rows[:: max(len(found.rows) // MOST_DOTS, 1)]
        which = f"{len(dots):,} of them"
    chart = Chart(
        "map",
        "Relevance, and how sure it is",
        "Every item is in this map: right is more relevant, high up is less sure (a wider "
        f"{level:.0%} interval); dots are single items to point at.",
        Axis("expected relevance", "number", low=0, high=1),
        Axis("width of its interval", "number", low=0, high=1),
        (
            Layer(
                "cells",
                f"all {found.total:,} items, darker where there are more",
                ((column + 0.5) * size).tolist(),
                ((row + 0.5) * size).tolist(),
                [f"{each:,} {'item' if each == 1 else 'items'} here" for each in many],
                low=many,
                size=size,
            ),
            Layer(
                "points",
                which,
                [item.mean for item in dots],
                [item.width for item in dots],
                [_told(item) for item in dots],
                colour="c1",
            ),
        ),
    )
    return figure(chart)


def _told(item: ItemRow) -> str:
    text = f"query {item.query}, item {item.doc}\nrelevance {number(item.mean)} " + (
        f"({number(item.low)} to {number(item.high)})"
    )
    if item.displays is not None:
        text += f"\nshown {item.displays:,} times, clicked {item.clicks:,}"
    return text


def _table(found: ItemSample) -> str:
    """The table: its first rows as HTML, all as data for the script."""
    first = UNDERRATED if found.has_clicks else WIDTH if found.has_intervals else 2
    rows = [_values(item) for item in found.rows]
    rows.sort(key=lambda row: -_order(row[first]))
    shown = [i for i in range(len(COLUMNS)) if _is_known(found, i)]
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
        f'<button type="button" data-order="{shown.index(i)}">{words}</button>'
        for words, i in orders.items()
        if i in shown
    )
    return (
        f"{paragraph(_which(found))}"
        '<div class="items" data-items="items"><div class="controls" hidden>'
        '<input type="search" placeholder="Search queries and items" '
        f'aria-label="Search queries and items">{buttons}</div>'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
        '<div class="pager"><button type="button">Back</button>'
        '<span class="count" role="status"></span>'
        '<button type="button">On</button></div></div>'
        + data("items", {"formats": formats, "first": shown.index(first), "rows": rows})
    )


def _which(found: ItemSample) -> str:
    """Which items the table holds, and what its last columns mean."""
    if len(found.rows) == found.total:
        words = f"All {found.total:,} items."
    else:
        chosen = [
            f"the {count:,} most {name}"
            for name, count in (("uncertain", found.uncertain), ("underrated", found.underrated))
            if count
        ]
        words = (
            f"A sample: {len(found.rows):,} of {found.total:,} items. "
            f"{' and '.join(chosen)}{', and ' if chosen else ''}others drawn at random."
        )
        words = words.replace("items. the", "items: the").replace("items. others", "items: others")
    if found.has_clicks:
        sure = "the lower end of its relevance" if found.has_intervals else "its relevance"
        words += (
            f" Underrated is how far {sure} lies above the click rate it got where it was shown: "
            "it deserves a better place than it had."
        )
    return words


def _is_known(found: ItemSample, column: int) -> bool:
    if COLUMNS[column] in ("low", "high", "width"):
        return found.has_intervals
    return found.has_clicks or COLUMNS[column] not in ("shown", "clicked", "underrated")


def _values(item: ItemRow) -> list[str | float | int | None]:
    numbers = (item.mean, item.low, item.high, item.width)
    counted = (item.displays, item.clicks, short(item.underrated))
    return [item.query, item.doc, *map(short, numbers), *counted]


def _order(value: str | float | int | None) -> float:
    """A value to sort by; what is not known comes last."""
    return value if isinstance(value, float | int) else float("-inf")


def _cell(value: str | float | int | None, shown_as: str) -> str:
    if shown_as == "text":
        return f'<td class="id">{escape(str(value))}</td>'
    text = "–" if value is None else f"{value:,}" if shown_as == "count" else f"{value:.3f}"
    return f'<td class="number">{text}</td>'

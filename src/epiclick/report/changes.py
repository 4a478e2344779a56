"""What changed since the previous model: position bias and the relevance of items."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from epiclick.comparison.drift import FALSE_DISCOVERIES, drift
from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.item_map import short_id
from epiclick.report.markup import Absent, bullets, figure, number, paragraph, section
from epiclick.report.markup import table as table_of
from epiclick.report.overview import most_displayed
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

TITLE = "What changed since the previous model?"
MOST_ITEMS = 20


@dataclass(frozen=True)
class Change:
    """A difference, new - old, and its interval.

    Attributes:
        label: of what changed.
        new: its value now.
        old: its value before.
        difference: between them.
        low: lower end of the difference.
        high: upper end.
        p_value: probability of a difference as large without any change.
    """

    label: tuple[str, ...]
    new: float
    old: float
    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Changes:
    """Differences between the model and the one before it.

    Attributes:
        previous: name of the model before.
        bias: relative position bias.
        columns: names of the contexts.
        p_value: of all positions together; NaN without intervals.
        items: how many items were compared; None if relevance was not.
        changed: how many of them changed.
        shown: those that changed most certainly.
        level: of the intervals.
        notes: what the numbers assume, and what could not be compared.
    """

    previous: str
    bias: tuple[Change, ...]
    columns: str
    p_value: float
    items: int | None
    changed: int
    shown: tuple[Change, ...]
    level: float
    notes: tuple[str, ...]


def changes(sources: Sources) -> Changes | Absent:
    """Compare the model with the previous one."""
    if sources.previous is None:
        return Absent("No earlier model was given to compare with.", "--previous MODEL")
    found = drift(sources.model, sources.previous, sources.features, overlap=sources.overlap)
    bias, changed = found.position_bias, found.changed_items
    names = list(sources.fitted.contexts.column_names)
    names = [name for name in bias.columns if name in names]
    return Changes(
        previous=sources.previous_name,
        bias=_rows(bias, names),
        columns=", ".join(names),
        p_value=found.p_value,
        items=None if found.items is None else len(found.items),
        changed=len(changed),
        shown=_rows(changed.head(MOST_ITEMS), ["query_id", "doc_id"]),
        level=found.level,
        notes=(found.assumption, *found.notes),
    )


def _rows(frame: pd.DataFrame, names: list[str]) -> tuple[Change, ...]:
    values = ("new", "old", "difference", "low", "high", "p_value")
    return tuple(
        Change(tuple(str(row[name]) for name in names), *(float(row[each]) for each in values))
        for row in frame.to_dict("records")
    )


def changes_section(report: "Report") -> str:
    """Position bias before and now, and items that changed; nothing without an earlier model."""
    found = report.changes
    if isinstance(found, Absent):
        return ""
    verdict = ""
    if found.p_value == found.p_value:
        outcome = "changed" if found.p_value < FALSE_DISCOVERIES else "did not change noticeably"
        verdict = paragraph(
            f"Position bias {outcome} since {found.previous}: p = {found.p_value:.2g} for all "
            "positions together."
        )
    items = ""
    if found.items is not None:
        outcome = "that of none changed noticeably"
        if found.changed:
            outcome = (
                f"that of {found.changed:,} changed, of which {FALSE_DISCOVERIES:.0%} or fewer are "
                "expected to be chance"
            )
        items = paragraph(f"The relevance of {found.items:,} items was compared; {outcome}.")
    return section(
        "drift",
        TITLE,
        verdict,
        f'<div class="charts">{_chart(found)}</div>',
        items,
        _table(("query", "item"), found.shown) if found.shown else "",
        bullets(f"{note}." for note in found.notes),
    )


def _chart(found: Changes) -> str:
    shown = [found.bias[i] for i in most_displayed([1] * len(found.bias))]
    place = range(len(shown))
    texts = [f"{', '.join(row.label)}: {_signed(row)}" for row in shown]
    chart = Chart(
        "drift",
        "Change of relative position bias",
        f"New minus old with its {found.level:.0%} interval: one that reaches the dashed line at 0 "
        "may be chance.",
        Axis(found.columns, names=tuple(", ".join(row.label) for row in shown)),
        Axis("difference", "signed"),
        (
            Layer(
                "points",
                "",
                list(place),
                [row.difference for row in shown],
                texts,
                [row.low for row in shown],
                [row.high for row in shown],
            ),
            Layer("rule", "", [None, None], [0, 0], colour="truth"),
        ),
    )
    return figure(chart, _table((found.columns,), found.bias, joined=True))


def _signed(row: Change) -> str:
    if row.low != row.low:
        return f"{row.difference:+.3f}"
    return f"{row.difference:+.3f} ({row.low:+.3f} to {row.high:+.3f})"


def _table(names: tuple[str, ...], rows: tuple[Change, ...], *, joined: bool = False) -> str:
    columns = (*names, "new", "old", "difference", "p")
    return table_of(
        columns,
        (
            (
                *((", ".join(row.label),) if joined else map(short_id, row.label)),
                number(row.new),
                number(row.old),
                _signed(row),
                number(row.p_value),
            )
            for row in rows
        ),
        texts=len(names),
    )

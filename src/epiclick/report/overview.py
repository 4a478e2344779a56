"""Overview of the data: how much there is, and the click rate of every context.

The helpers at the end name and choose contexts, and estimate click rates, for other sections too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy import special

from epiclick.data.counts import ClickCounts
from epiclick.fitted.state import given_of
from epiclick.report.chart import COLOURS, Axis, Chart, Colour, Layer
from epiclick.report.markup import (
    Absent,
    escape,
    figure,
    interval,
    missing,
    percent,
    section,
    table,
)
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

LEVEL = 0.9  # of the intervals of click rates

BARS = 0.6
"""Width of the bars of a place."""

MOST_CONTEXTS = 120
"""Contexts that a chart has room for; if there are more, the most displayed are shown."""


@dataclass(frozen=True)
class ContextRow:
    """A context.

    Attributes:
        label: its values.
        group: those other than the position, such as a device; "" if there are none.
        place: its position; the label where it has no other values.
    """

    label: str
    group: str
    place: str


@dataclass(frozen=True)
class RateRow(ContextRow):
    """Displays and clicks of a context.

    Attributes:
        displays: how often something was shown there.
        clicks: how often that was clicked.
        rate: clicks per display; NaN where nothing was shown.
        low: lower end of the rate's interval; NaN where the queries are not known.
        high: upper end.
    """

    displays: int
    clicks: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Overview:
    """Size of the data.

    Attributes:
        of: what was counted: "the log", or the model's training data.
        pages: result pages; None where that is not known.
        queries: different queries.
        pairs: different items, an item being a document shown for a query.
        displays: items shown.
        clicks: items clicked.
        context: what click rates are reported by: "position".
        rows: of the contexts, the most displayed if there are many.
        contexts: how many there are.
    """

    of: str
    pages: int | None
    queries: int
    pairs: int
    displays: int
    clicks: int
    context: str
    rows: tuple[RateRow, ...]
    contexts: int


def overview(sources: Sources) -> Overview:
    """Count the log; without one, report the counts that are stored in the model."""
    fitted, log = sources.fitted, sources.log
    if log is not None:
        log = log.by_given()
        table, contexts = log.by_context(), log.contexts
        displays, clicks = table["displays"].to_numpy(), table["clicks"].to_numpy()
        rates = click_rates(log, log.context, len(contexts))
        sizes = (log.num_queries, len(log), log.total_displays, log.total_clicks)
    else:
        kept, (contexts, index) = fitted.training.checks["by_context"], given_of(fitted)
        displays, clicks = (
            np.bincount(index, kept[name]).astype(np.int64) for name in ("displays", "clicks")
        )
        rate = clicks / np.where(displays > 0, displays, np.nan)
        rates = np.stack([rate, np.full(len(rate), np.nan), np.full(len(rate), np.nan)])
        training = fitted.training
        sizes = (len(fitted.queries.train), training.pairs, training.displays, training.clicks)
    places = context_places(contexts)
    return Overview(
        "the log" if log is not None else "the model's training data",
        None if log is None else log.pages,
        *sizes,
        context=", ".join(contexts.column_names),
        rows=tuple(
            RateRow(*places[k], int(displays[k]), int(clicks[k]), *map(float, rates[:, k]))
            for k in most_displayed(displays)
        ),
        contexts=len(contexts),
    )


def overview_section(report: "Report") -> str:
    """Sizes, and the click rate of every position."""
    found = report.overview
    no_log = ""
    if found.of != "the log":
        no_log = missing(Absent(f"No log was given; these are the counts of {found.of}.", "LOG"))
    return section("data", "Overview of the data", _tiles(found), no_log, _rates(found))


def _tiles(found: Overview) -> str:
    numbers = {
        "pages": "–" if found.pages is None else f"{found.pages:,}",
        "queries": f"{found.queries:,}",
        "items": f"{found.pairs:,}",
        "displays": f"{found.displays:,}",
        "clicks": f"{found.clicks:,}",
        "of displays clicked": percent(found.clicks / found.displays if found.displays else None),
    }
    tiles = (f"<div><b>{text}</b><span>{name}</span></div>" for name, text in numbers.items())
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _rates(found: Overview) -> str:
    rows = found.rows
    texts = [
        f"{found.context} {row.label}: {percent(row.rate)} clicked\n"
        f"{row.clicks:,} clicks of {row.displays:,} displays"
        for row in rows
    ]
    places, groups = overlaid(rows)
    bars = tuple(
        Layer(
            "bars",
            group.name or "click rate",
            group.at,
            [rows[i].rate for i in group.rows],
            [texts[i] for i in group.rows],
            colour=group.colour,
            offset=BARS * group.offset,
            size=BARS / len(groups),
        )
        for group in groups
    )
    chart = Chart(
        "rates",
        f"Click rate by {found.context}",
        "How often items shown at each position were clicked: the top gets more clicks both "
        "because users look there and because better items are shown there, which the next section "
        "separates.",
        Axis("position" if len(groups) > 1 else found.context, names=places),
        Axis("click rate", "percent", low=0),
        bars,
    )
    numbers = table(
        (found.context, "displays", "clicks", "click rate", f"{LEVEL:.0%} interval"),
        (
            (
                row.label,
                f"{row.displays:,}",
                f"{row.clicks:,}",
                percent(row.rate),
                interval(row.low, row.high),
            )
            for row in rows
        ),
    )
    return figure(chart, numbers) + shown_of(len(rows), found.contexts)


def context_labels(contexts: pa.Table) -> tuple[str, ...]:
    """Each context by its values: "3", or "phone, 3" with several columns."""
    return tuple(", ".join(map(str, row.values())) for row in contexts.to_pylist())


def context_places(contexts: pa.Table) -> list[tuple[str, str, str]]:
    """Label, group and place of each context, see `ContextRow`."""
    labels, names = context_labels(contexts), contexts.column_names
    others = [name for name in names if name != "position"]
    if not others or len(others) == len(names):
        return [(label, "", label) for label in labels]
    places = map(str, contexts["position"].to_pylist())
    return list(zip(labels, context_labels(contexts.select(others)), places, strict=True))


@dataclass(frozen=True)
class Group:
    """Rows that a chart draws in one colour, beside those of other groups.

    Attributes:
        name: of the group; "" if there is only one.
        colour: of its marks.
        offset: of its marks from the middle of a place, between -1/2 and 1/2 of what groups share.
        rows: their numbers.
        at: the place of each.
    """

    name: str
    colour: Colour
    offset: float
    rows: tuple[int, ...]
    at: tuple[int, ...]


def overlaid(rows: Sequence[ContextRow]) -> tuple[tuple[str, ...], tuple[Group, ...]]:
    """Names of the places of a chart, and groups over each other; one group if there are many."""
    names = tuple(dict.fromkeys(row.group for row in rows))
    together = not 1 < len(names) <= len(COLOURS)
    labels = [row.label if together else row.place for row in rows]
    places = tuple(dict.fromkeys(labels))
    groups = []
    for number, name in enumerate(("",) if together else names):
        own = tuple(i for i, row in enumerate(rows) if together or row.group == name)
        offset = 0.0 if together else (number + 0.5) / len(names) - 0.5
        at = tuple(places.index(labels[i]) for i in own)
        groups.append(Group(name, COLOURS[number], offset, own, at))
    return places, tuple(groups)


def context_name(contexts: pa.Table, index: int) -> str:
    """A context as sentences name it: "position 3", or "device phone, position 3"."""
    row = contexts.slice(index, 1).to_pylist()[0]
    return ", ".join(f"{name} {value}" for name, value in row.items())


def most_displayed(displays: Sequence[int] | np.ndarray) -> list[int]:
    """Indices of the contexts that are shown, in their order."""
    most = np.argsort(-np.asarray(displays, float), kind="stable")[:MOST_CONTEXTS]
    return sorted(most.tolist())


def shown_of(shown: int, total: int) -> str:
    """A remark where not all contexts are shown."""
    if shown >= total:
        return ""
    return f"<p>{escape(f'The {shown} most displayed of {total:,} are shown.')}</p>"


def click_rates(
    counts: ClickCounts, group: np.ndarray, groups: int, level: float = LEVEL
) -> np.ndarray:
    r"""Rate, low and high of groups of entries: (3, groups); NaN where nothing was displayed.

    Displays of one query are alike, so the error of a rate comes from the differences between
    queries:

    .. math:: s^2 = \frac{Q}{Q - 1} \frac{\sum_q (M_q - \hat r\, N_q)^2}{N^2}, \qquad
              n^* = \hat r (1 - \hat r) / s^2

    and the interval is Wilson's for n* displays, never more than there are, so that it has ends
    even where nothing or everything was clicked.

    Args:
        counts: displays and clicks.
        group: (entries,) group of each entry.
        groups: number of groups.
        level: probability of the intervals.
    """
    displays = np.bincount(group, counts.displays, groups)
    clicks = np.bincount(group, counts.clicks, groups)
    shown = np.where(displays > 0, displays, np.nan)
    rate = clicks / shown
    cell = group.astype(np.int64) * counts.num_queries + counts.query[counts.pair]
    cells, index = np.unique(cell, return_inverse=True)
    own = cells // counts.num_queries  # group of each (group, query)
    residual = np.bincount(index, counts.clicks - rate[group] * counts.displays)
    queries = np.bincount(own, minlength=groups).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.bincount(own, residual**2, groups) * queries / (queries - 1) / shown**2
        effective = np.where(squared > 0, rate * (1 - rate) / squared, queries)
    effective = np.fmin(np.fmax(effective, 1.0), shown)
    t = special.stdtrit(np.maximum(queries - 1, 1), (1 + level) / 2)
    scale = 1 + t**2 / effective
    centre = (rate + t**2 / (2 * effective)) / scale
    half = t * np.sqrt(rate * (1 - rate) / effective + t**2 / (4 * effective**2)) / scale
    return np.stack([rate, np.maximum(centre - half, 0), np.minimum(centre + half, 1)])

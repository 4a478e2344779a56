"""Columns whose names and values show what a display is, so that options can be proposed.

A name alone proves nothing. A column is proposed only if its values fit: 0 and 1 for marks, and
positions that start again for numbers of result pages.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from epiclick.data.engine import Source
from epiclick.data.row_rule import number
from epiclick.data.schema import LogColumns, LogOptions

if TYPE_CHECKING:
    import ibis.expr.types as ir

PAGE_NUMBERS = ("page", "page_number", "page_num", "page_no", "results_page", "serp_page")
OFFSETS = ("offset", "start", "from", "start_index", "first_result")
VIEWED = ("viewed", "in_view", "is_viewed", "visible", "is_visible", "viewable", "seen")
SPONSORED = ("sponsored", "is_sponsored", "is_ad", "ad", "promoted", "is_promoted")
DEVICES = ("device", "device_type", "platform", "form_factor")
OUTCOMES = ("purchase", "purchased", "conversion", "converted", "bought", "order", "ordered")
TIMES = (
    *("time", "timestamp", "date", "day", "datetime", "ts", "event_time", "event_date"),
    *("created_at", "logged_at", "hour"),
)
EPOCHS = ((1e9, 4e9, 1.0), (1e12, 4e12, 1e3), (1e15, 4e15, 1e6))
"""Times since 1970 in seconds, milliseconds and microseconds: their range, and units a second."""


class Proposal(NamedTuple):
    """An option that a column calls for.

    Attributes:
        settings: fields of `LogOptions`.
        why: what was found, as a sentence.
    """

    settings: Mapping[str, Any]
    why: str


def proposals(table: "ir.Table", columns: LogColumns, options: LogOptions) -> Iterator[Proposal]:
    """Options on displays that the values of a log call for, and that were not given."""
    free = {
        name.lower(): name
        for name in table.columns
        if name not in (*columns.found.values(), *options.context)
    }
    if options.page_number is None and options.offset is None and "position" in columns.found:
        yield from _paging(table, columns.found["position"], free)
    for field, names, what in (
        ("viewed", VIEWED, "marks what came into view; other rows are no displays"),
        ("sponsored", SPONSORED, "marks sponsored slots, which are left out"),
    ):
        named = [free[name] for name in names if name in free]
        marks = [own for own in named if _is_mark(table[own])]
        if getattr(options, field) is None and len(marks) == 1:
            yield Proposal({field: marks[0]}, f"{marks[0]} {what}")


def _paging(table: "ir.Table", position: str, free: Mapping[str, str]) -> Iterator[Proposal]:
    """The number of the results page, or of the results before it, if positions start again."""
    rank = number(table[position])
    for names, is_offset in ((PAGE_NUMBERS, False), (OFFSETS, True)):
        for own in (free[name] for name in names if name in free):
            kind = table[own].type()
            if not (kind.is_numeric() or kind.is_string()):
                continue
            page = number(table[own])
            least = page.min().as_scalar()
            (found,) = (
                table.aggregate(
                    first=page.min(),
                    pages=page.nunique(),
                    lowest=rank.min(),
                    highest=rank.max(),
                    later=rank.min(where=page > least),
                )
                .to_pyarrow()
                .to_pylist()
            )
            # text may hold a position that is not a number, or too large for one
            known = found["lowest"] is not None and math.isfinite(found["highest"])
            restarts = known and found["later"] == found["lowest"]
            if not restarts or found["pages"] < 2 or found["first"] not in (0, 1):
                continue
            if is_offset:
                yield Proposal({"offset": own}, f"positions start again where {own} rises")
                return
            size = int(found["highest"] - found["lowest"] + 1)
            settings = {"page_number": own, "page_size": size}
            if found["first"] == 0:
                settings["page_number_base"] = 0
            yield Proposal(
                settings, f"positions start again on each {own}, and the highest is {size}"
            )
            return


def _is_mark(value: "ir.Value") -> bool:
    """Whether a column has both 0 and 1 (or false and true), and nothing else."""
    kind = value.type()
    if not (kind.is_boolean() or kind.is_numeric() or kind.is_string()):
        return False
    marks = number(value).name("mark").as_table()
    distinct = marks.select("mark").distinct().limit(4).to_pyarrow()["mark"].to_pylist()
    return {mark for mark in distinct if mark is not None} == {0, 1} and (
        None not in distinct or not kind.is_string()
    )


def other_uses(table: "ir.Table", columns: LogColumns, options: LogOptions) -> list[str]:
    """What further columns could be used for, as sentences; a matter of choice, not of flaws."""
    taken = (*columns.found.values(), *options.context)
    free = {name.lower(): name for name in table.columns if name not in taken}
    found = []
    for name in (name for name in DEVICES if name in free):
        contexts = ",".join((free[name], *options.context))
        found.append(
            f"If users look at results differently by {free[name]}, add --context {contexts}."
        )
    for name in (name for name in OUTCOMES if name in free):
        if options.conversion is None and _is_mark(table[free[name]]):
            found.append(
                f"If {free[name]} marks clicks that led to one, add --conversion {free[name]}."
            )
    return found


@dataclass(frozen=True)
class Dates:
    """The time that a log covers.

    Attributes:
        column: with the time of each row.
        first: earliest, ISO 8601.
        last: latest.
    """

    column: str
    first: str
    last: str


def dates_of(opened: Source) -> Dates | None:
    """The range of a log's times, by its first column of times; None if it has none."""
    table = opened.table
    typed = [name for name in table.columns if _is_time(table[name])]
    named = [name for name in table.columns if name.lower() in TIMES and name not in typed]
    for name in (*typed, *named):
        found = table.aggregate(first=table[name].min(), last=table[name].max())
        (ends,) = found.to_pyarrow().to_pylist()
        first, last = (_as_text(ends[end]) for end in ("first", "last"))
        if first is not None and last is not None:
            return Dates(name, first, last)
    return None


def _is_time(value: "ir.Value") -> bool:
    return bool(value.type().is_timestamp() or value.type().is_date())


def _as_text(value: Any) -> str | None:
    """A time in ISO 8601; None if it is no time."""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).isoformat()
        except ValueError:
            return None
    if isinstance(value, int | float):
        for least, most, unit in EPOCHS:
            if least <= value < most:
                return datetime.fromtimestamp(value / unit, UTC).isoformat()
    return None


def applied(options: LogOptions, found: Sequence[Proposal]) -> LogOptions:
    """The options with those proposed."""
    for proposal in found:
        options = replace(options, **proposal.settings)
    return options

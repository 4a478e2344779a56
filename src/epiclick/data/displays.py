"""What a display is: where on the page it was, whether it came into view, and whether it was paid.

Logs differ in this, and counting assumes one meaning. The log's own columns stay as they are, for
conditions of `where`; what is derived from them is added under names of its own.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from epiclick.data.row_rule import RowRule, is_whole, not_binary, number, number_rules, whole
from epiclick.data.schema import GRID, LogColumns, LogOptions

if TYPE_CHECKING:
    import ibis.expr.types as ir

RANK, PAID = "rank_on_page", "sponsored_slot"
"""Canonical columns of a log with the values from which positions and contexts were derived."""

SPACES = r"[\s\p{Z}]+"

MANY_MERGED = 0.2
"""Share of queries that disappear by normalising from which on they may be ids, not text."""


def as_displayed(
    table: "ir.Table", columns: LogColumns, options: LogOptions
) -> "tuple[ir.Table, LogColumns]":
    """The rows with what the options derive from them, and where the columns are then.

    Args:
        table: the log with its original columns.
        columns: where its columns are.
        options: how it is read.
    """
    found, contexts = dict(columns.found), dict(columns.contexts)
    derived: dict[str, ir.Value] = {}

    def derive(name: str, value: "ir.Value") -> str:
        derived[f"epiclick_{name}"] = value
        return f"epiclick_{name}"

    if "position" in found:
        position = table[found["position"]]
        if options.page_number is not None or options.offset is not None:
            found[RANK] = found["position"]
            position = _absolute(position, _results_before(table, columns, options))
            found["position"] = derive("position", position)
            if "position" in contexts:
                contexts["position"] = found["position"]
        if set(GRID) <= set(columns.computed):
            assert options.grid is not None
            place = _whole_or_null(position) - options.position_base
            cells = (place // options.grid, place % options.grid)
            for name, value in zip(GRID, cells, strict=True):
                contexts[name] = derive(name, (value + 1).cast("int64"))
    if "sponsored" in columns.computed:
        found[PAID] = found.pop("sponsored")
        paid = number(table[found[PAID]])
        contexts["sponsored"] = derive("sponsored", paid.isin([1]).cast("int64"))
    if options.normalise_queries and table[found["query_id"]].type().is_string():
        found["query_id"] = derive("query", normalised(table[found["query_id"]]))
    if not derived:
        return table, columns
    return table.mutate(**derived), replace(columns, found=found, contexts=contexts)


def _results_before(table: "ir.Table", columns: LogColumns, options: LogOptions) -> "ir.Value":
    """Results on earlier pages; NULL where the log's number is invalid."""
    import ibis  # slow to import

    if options.offset is not None:
        before = _whole_or_null(table[columns.found["offset"]])
    else:
        page = _whole_or_null(table[columns.found["page_number"]])
        before = (page - options.page_number_base) * options.page_size
    return ibis.ifelse(before >= 0, before, ibis.null("int64"))


def _absolute(rank: "ir.Value", before: "ir.Value") -> "ir.IntegerValue":
    """Positions from the first page on; the rank where the number of its page is invalid."""
    place = _whole_or_null(rank)
    return place + before.fill_null(0)


def _whole_or_null(value: "ir.Value") -> "ir.IntegerValue":
    """A column as 64-bit integers; NULL where it is not a whole number."""
    import ibis

    as_number = number(value)
    if as_number.type().is_integer():
        return as_number.cast("int64")
    return ibis.ifelse(is_whole(as_number), whole(as_number), ibis.null("int64"))


def normalised(query: "ir.StringValue") -> "ir.StringValue":
    """Text in lower case, with single spaces between words and none at the ends.

    The same as `folded` does to Arrow arrays.
    """
    return query.re_replace(SPACES, " ").strip().lower()


def only_displays(log: "ir.Table", options: LogOptions) -> "ir.Table":
    """The canonical log without rows that never came into view, and without sponsored slots.

    Rows that break a rule of these columns stay, so that they are reported.
    """
    if options.viewed is not None:
        log = log.filter((~_is(log.viewed, 0)) | _clicked(log))
    if options.sponsored is not None and options.sponsored_as == "drop":
        log = log.filter(~_is(log.sponsored, 1))
    return log


def left_out_displays(log: "ir.Table", options: LogOptions) -> list[str]:
    """How many rows of a canonical log `only_displays` leaves out, as sentences."""
    left: dict[str, Any] = {}
    if options.viewed is not None:
        left["never came into view"] = _is(log.viewed, 0) & ~_clicked(log)
    if options.sponsored is not None and options.sponsored_as == "drop":
        seen = ~left["never came into view"] if left else True
        left["were sponsored slots"] = _is(log.sponsored, 1) & seen
    if not left:
        return []
    sums = {f"left_{i}": log.count(where=mask) for i, mask in enumerate(left.values())}
    (found,) = log.aggregate(rows=log.count(), **sums).to_pyarrow().to_pylist()
    return [
        f"{found[f'left_{i}']:,} of {found['rows']:,} rows {what} and are left out"
        for i, what in enumerate(left)
        if found[f"left_{i}"]
    ]


def merged_queries(query: "ir.Value") -> list[str]:
    """How many queries `normalise_queries` merges, as a sentence."""
    if not query.type().is_string():
        return []
    table = query.name("query").as_table()
    sums = table.aggregate(own=table.query.nunique(), left=normalised(table.query).nunique())
    (found,) = sums.to_pyarrow().to_pylist()
    own, left = found["own"], found["left"]
    if own == left:
        return []
    note = f"{own:,} queries became {left:,} by --normalise-queries (normalise_queries=True)"
    if own - left > MANY_MERGED * own:
        note += (
            "; that is many: if these are ids in which upper and lower case differ, and not what "
            "people typed, read the log without it"
        )
    return [note]


def display_rules(log: "ir.Table", columns: LogColumns, options: LogOptions) -> Iterator[RowRule]:
    """The rules for the columns that determine what a display is."""
    if options.page_number is not None:
        yield from _page_number_rules(log, columns, options)
    if options.offset is not None:
        own = columns.found["offset"]
        yield from number_rules(log, "offset")
        yield RowRule(
            f"offset ({own}) must not be negative",
            lambda t: number(t.offset) < 0,
            "offset",
            "It is the number of results before the page: 0 for the first.",
            code="negative-offset",
        )
    if options.viewed is not None:
        own = columns.found["viewed"]
        yield from _mark_rules("viewed", own)
        yield RowRule(
            f"clicked, but not in view ({own})",
            lambda t: _is(t.viewed, 0) & _clicked(t),
            "viewed",
            "Clicked results were seen, so the log misses some views. If these are few, drop them "
            "with --on-bad drop; if many, fix the tracking, or count all results without --viewed.",
            code="click-not-viewed",
        )
    if options.sponsored is not None:
        mark = PAID if "sponsored" in columns.computed else "sponsored"
        yield from _mark_rules(mark, columns.found["sponsored"])
    if options.grid is not None and not columns.computed:
        yield from _grid_rules(log, options.grid)


def _page_number_rules(
    log: "ir.Table", columns: LogColumns, options: LogOptions
) -> Iterator[RowRule]:
    own, first, size = columns.found["page_number"], options.page_number_base, options.page_size
    assert size is not None
    yield from number_rules(log, "page_number")
    yield RowRule(
        f"page_number ({own}) must be {first} or more",
        lambda t: number(t.page_number) < first,
        "page_number",
        "If pages count from 0, use --page-number-base 0." if first else "",
        code="page-number-below-base",
    )
    if "position" in columns.found:
        yield RowRule(
            f"position on the page must be at most {size - 1 + options.position_base}, as pages "
            f"have {size} results",
            lambda t: number(t[RANK]) - options.position_base >= size,
            RANK,
            "If positions do not start again on page 2, leave out --page-number; else give the "
            "right --page-size.",
            code="position-beyond-page",
        )


def _mark_rules(name: str, own: str) -> Iterator[RowRule]:
    """The rules for a column of 0 and 1."""
    called = own if own == name or name == PAID else f"{name} ({own})"
    yield RowRule(
        f"{called} is missing",
        lambda t: t[name].isnull(),
        name,
        "Write 0 or 1 in each row.",
        code="missing-value",
    )
    yield RowRule(
        f"{called} must be 0 or 1", lambda t: not_binary(t[name]), name, code="mark-not-binary"
    )


def _grid_rules(log: "ir.Table", grid: int) -> Iterator[RowRule]:
    """The rules for a log's own rows and columns, which rankings are laid out in."""
    for name in GRID:
        yield from list(number_rules(log, name))[1:]  # that they are present is a rule anyway
        yield RowRule(
            f"{name} must be 1 or more" + (f", and at most {grid}" if name == "column" else ""),
            lambda t, n=name: (
                (number(t[n]) < 1)  # type: ignore[misc]
                | ((number(t[n]) > grid) if n == "column" else False)
            ),
            name,
            "Rows and columns of a grid count from 1.",
            code="outside-grid",
        )


def _is(value: "ir.Value", mark: int) -> "ir.BooleanValue":
    """Whether a column of marks has this one; false where it is missing or invalid."""
    return (number(value) == mark).fill_null(False)


def _clicked(log: "ir.Table") -> "ir.BooleanValue":
    """Whether a row of a canonical log has a click."""
    return (number(log.click if "click" in log.columns else log.clicks) > 0).fill_null(False)

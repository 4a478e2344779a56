"""A log's counts by the values of a column, such as the device, and rows that a column marks."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array, distinct, locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.engine import engine_errors, quote_name, stoppable
from epiclick.data.files import unchanged
from epiclick.data.ids import settle_types
from epiclick.data.page_weights import check_same
from epiclick.data.pages import kept_rows
from epiclick.data.readers import count_log, counts_files, open_log
from epiclick.data.schema import ALIASES, LogOptions, unknown_column
from epiclick.data.sources import open_source
from epiclick.errors import InputError, InputWarning, Problem, did_you_mean

RESERVED = set(ALIASES) - {"part", "user_id"}
"""Columns that already have a role in counting."""


@dataclass(frozen=True, eq=False)
class ByColumn:
    """Counts grouped by the values of one column.

    Attributes:
        name: the column.
        counts: the counts of the whole by value; `contexts` are the values, one per row.
        entry: (entries,) entry of the whole that contains each entry of `counts`.
        pages: (values,) pages with at least one row of the value; None where unknown.
    """

    name: str
    counts: ClickCounts
    entry: np.ndarray
    pages: Sequence[int | None]

    @property
    def values(self) -> list[Any]:
        """The column's values, in order."""
        return self.counts.contexts[self.name].to_pylist()


def count_by(
    log: Any, options: LogOptions, whole: ClickCounts, columns: Sequence[str]
) -> tuple[ByColumn, ...]:
    """Group the counts of a log by each of several columns, one column at a time.

    Args:
        log: anything `read_log` reads.
        options: how it was read.
        whole: the counts of the log, or of some of its pairs.
        columns: contexts, or further columns of the log.
    """
    with unchanged(log):
        _check_columns(log, options, columns)
        return tuple(
            _by_context(log, options, whole, name)
            if name in options.context
            else _by_further(log, options, whole, name)
            for name in columns
        )


def _by_context(log: Any, options: LogOptions, whole: ClickCounts, name: str) -> ByColumn:
    used = np.unique(whole.context)  # part of a log may not use all contexts
    shown = whole.contexts[name].take(used)
    values, index = distinct({name: as_array(shown)})
    group = index[np.searchsorted(used, whole.context)]
    # a page has each position once, so clicks per page would equal clicks per display
    pages = None if name == "position" else _pages(log, options, whole, name, values[name])
    counts = replace(whole, contexts=values, context=group, options=_plain(options))
    return ByColumn(name, counts, np.arange(len(group)), pages or [None] * len(values))


def _by_further(log: Any, options: LogOptions, whole: ClickCounts, name: str) -> ByColumn:
    # only displays and clicks are needed, and the column may be that of conversions
    with_part = replace(options, part=name, page_parts=None, conversion=None, value=None)
    grouped, report = count_log(log, with_part)
    for message in report.warnings:
        warnings.warn(message, InputWarning, stacklevel=4)
    if len(grouped) > len(whole):
        grouped = grouped.subset(_located(grouped, whole, ()) >= 0)
    entry = _located(grouped, whole, whole.contexts.column_names)
    # rows without a value in the column are dropped as bad, but belong to the whole
    if options.on_bad == "error":
        check_same(whole, entry, grouped.displays, grouped.clicks, "the log")
    assert np.all(entry >= 0), "counts of another log"
    assert grouped.part is not None
    assert grouped.parts is not None
    used, group = np.unique(grouped.part, return_inverse=True)
    values = pa.table({name: grouped.parts.take(used)})
    pages = _pages(log, with_part, whole, "part", values[name])
    counts = replace(grouped, contexts=values, context=group, options=_plain(with_part))
    return ByColumn(name, counts, entry, pages or [None] * len(values))


def _plain(options: LogOptions) -> LogOptions:
    """The options of counts by a column alone: they have no history."""
    return replace(options, click_model="pbm")


def _located(grouped: ClickCounts, whole: ClickCounts, contexts: Sequence[str]) -> np.ndarray:
    """Entry of the whole that contains each entry; without contexts, the pair for each pair."""
    if not contexts:
        pairs = ("query_id", "doc_id")
        return locate_rows(
            {key: getattr(grouped, key) for key in pairs},
            {key: getattr(whole, key) for key in pairs},
        )
    keys = ["query_id", "doc_id", *contexts]
    wanted, among = grouped.keys(), whole.keys()
    return locate_rows({key: wanted[key] for key in keys}, {key: among[key] for key in keys})


def _pages(
    log: Any, options: LogOptions, whole: ClickCounts, name: str, values: pa.ChunkedArray
) -> list[int] | None:
    """(values,) pages of each value; None where pages are unknown."""
    if whole.pages is None or counts_files(log):
        return None
    opened, rows, columns = open_log(log, options)
    rows = kept_rows(rows, columns, options)
    with stoppable(opened.table), engine_errors(opened.name):
        pages = rows.group_by(name).aggregate(pages=rows.page_id.nunique()).to_pyarrow()
        pages = settle_types(pages, columns, options, text=opened.text)
    row = locate_rows({name: values}, {name: pages[name].cast(values.type)})
    # timestamps truncated to days repeat, and a page may have several on one day
    if len(pages) != len(values) or np.any(row < 0):
        return None
    return pages["pages"].to_numpy()[row].tolist()


def _check_columns(log: Any, options: LogOptions, columns: Sequence[str]) -> None:
    """Refuse repeated, reserved and unknown columns, all in one error."""
    twice = {name for name in columns if columns.count(name) > 1}
    problems = [
        Problem(f"column '{name}' is named twice", code="repeated-column") for name in sorted(twice)
    ]
    further = [name for name in dict.fromkeys(columns) if name not in options.context]
    for name in further:
        if name in RESERVED:
            remedy = (
                "Group clicks by another column, such as device, or by one of the contexts: "
                f"{', '.join(options.context)}."
            )
            what = f"column '{name}' is reserved for counting"
            problems.append(Problem(what, remedy=remedy, code="reserved-column"))
    further = [name for name in further if name not in ALIASES or name == "user_id"]
    if further and not counts_files(log):
        names = open_source(log, options.header).table.columns
        problems += [
            unknown_column(f"column '{name}'", name, names) for name in further if name not in names
        ]
    if problems:
        raise InputError.of(f"--by {','.join(columns)}", problems)


YES, NO = ("1", "true"), ("0", "false")


def marked_and_rest(source: Any, options: LogOptions, column: str) -> tuple[str, str]:
    """SQL conditions for the rows that a column marks and for the rest, with `options.where`.

    Refuses a column that does not exist, has values other than 0 and 1, or marks all rows or none.
    """
    with unchanged(source):
        return _conditions(source, options, column)


def _conditions(source: Any, options: LogOptions, column: str) -> tuple[str, str]:
    opened = open_source(source, options.header)
    table = opened.table
    if column not in table.columns:
        names = list(table.columns)
        raise InputError(
            f"{opened.name} has no column '{column}'{did_you_mean(column, names)}; it has "
            f"{', '.join(names)}",
            code="unknown-column",
        )
    if options.where is not None:
        from epiclick.data.where import select_where  # whose parser is slow to import

        table = select_where(opened, options.where)
    value = table[column].cast("string").lower().name("value")
    with stoppable(opened.table), engine_errors(opened.name):
        rows = table.select(value).group_by("value").size().to_pyarrow().to_pylist()
    found = {row["value"]: next(n for name, n in row.items() if name != "value") for row in rows}
    if wrong := {mark: n for mark, n in found.items() if mark not in (*YES, *NO)}:
        problem = Problem(
            f"{column} must be 0 or 1, or true or false",
            sum(wrong.values()),
            examples=["missing" if mark is None else f"'{mark}'" for mark in list(wrong)[:3]],
            code="mark-not-binary",
        )
        raise InputError.of(opened.name, [problem])
    for marks, what in ((YES, "no row"), (NO, "every row")):
        if not any(found.get(mark) for mark in marks):
            raise InputError(
                f"{column} marks {what} of {opened.name}; there is nothing to compare",
                code="nothing-to-compare",
            )
    text = f"lower(CAST({quote_name(column)} AS VARCHAR))"
    earlier = "" if options.where is None else f"({options.where}\n) AND "
    marked, rest = (
        f"{earlier}{text} IN ({', '.join(repr(mark) for mark in marks)})" for marks in (YES, NO)
    )
    return marked, rest

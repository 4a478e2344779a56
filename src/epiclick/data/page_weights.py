"""Weights of the entries of counts in scores that are means over pages.

A mean within each result page and then over pages gives a display on a page of length L the weight
1/L. So besides its displays and clicks an entry needs two sums of 1/L: over its displays with a
click, and over those without.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import locate_rows
from epiclick.data.counting import count_expression, row_rules
from epiclick.data.counts import ClickCounts
from epiclick.data.engine import engine_errors, stoppable
from epiclick.data.files import unchanged
from epiclick.data.ids import settle_types
from epiclick.data.pages import kept_rows
from epiclick.data.readers import counts_files, open_log
from epiclick.data.results import fetch
from epiclick.data.schema import LogColumns, LogOptions
from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

LENGTH = "epiclick_page_length"


@dataclass(frozen=True, eq=False)
class PageWeights:
    """Sums of 1 / (length of the page) over the displays of each entry of some counts.

    Attributes:
        clicked: (entries,) over the displays with a click.
        unclicked: (entries,) over the displays without one.
        pages: number of pages, which is the sum of all weights.
    """

    clicked: np.ndarray
    unclicked: np.ndarray
    pages: int


def page_weights(log: Any, options: LogOptions, counts: ClickCounts) -> PageWeights | None:
    """The weights of the entries of `counts` from the pages of the log they were counted from.

    The length of a page is the number of its rows that were counted: where `counts` cover only some
    pairs or parts of the log, the other rows do not belong to their pages.

    Args:
        log: anything `read_log` reads.
        options: how it was read.
        counts: the counts of the log, or of some of its pairs or parts.

    Returns:
        None where pages are unknown: the log has no page_id, or is already counted.
    """
    with unchanged(log):
        return None if counts_files(log) else _weights(log, options, counts)


def _weights(log: Any, options: LogOptions, counts: ClickCounts) -> PageWeights | None:
    opened, rows, columns = open_log(log, options)
    if columns.counted or "page_id" not in columns.found:
        return None
    rows = kept_rows(rows, columns, options)
    keys = counts.keys()
    with stoppable(opened.table), engine_errors(opened.name):
        counted = fetch(count_by_length(rows, columns, options))
        entry = entries_of(counted, columns, options, keys, text=opened.text)
        if np.any(entry < 0):
            same = [name for name in ("query_id", "doc_id", "part") if name in keys.column_names]
            of_counts = counted.filter(pa.array(entry >= 0)).select(same)
            rows = rows_of(rows, of_counts.group_by(same).aggregate([]), same)
            counted = fetch(count_by_length(rows, columns, options))
            entry = entries_of(counted, columns, options, keys, text=opened.text)
    length, displays, clicks = (counted[name].to_numpy() for name in (LENGTH, "displays", "clicks"))
    check_same(counts, entry, displays, clicks, opened.name)
    pages = np.bincount(length, displays)[1:] / np.arange(1, length.max() + 1)  # by length
    return PageWeights(
        clicked=np.bincount(entry, clicks / length, len(counts.pair)),
        unclicked=np.bincount(entry, (displays - clicks) / length, len(counts.pair)),
        pages=round(pages.sum()),
    )


def count_by_length(rows: "ir.Table", columns: LogColumns, options: LogOptions) -> "ir.Table":
    """The counting expression with the length of the page as one more context.

    The engine returns whole numbers, so that the order of its threads does not affect any sum.
    """
    import ibis  # slow to import

    length = rows.count().over(ibis.window(group_by="page_id"))
    with_length = replace(columns, contexts={**columns.contexts, LENGTH: LENGTH})
    rules = row_rules(rows, columns, options)
    return count_expression(rows.mutate(**{LENGTH: length}), with_length, options, rules)


def rows_of(rows: "ir.Table", keys: pa.Table, names: Sequence[str]) -> "ir.Table":
    """The rows whose values in the named columns are among the given ones."""
    import ibis

    # compared as text, since types of the engine may change on the way through Arrow
    given = ibis.memtable(keys)
    return rows.semi_join(
        given, [rows[name].cast("string") == given[name].cast("string") for name in names]
    )


def entries_of(
    counted: pa.Table, columns: LogColumns, options: LogOptions, keys: pa.Table, *, text: bool
) -> np.ndarray:
    """The entry that each counted row belongs to, -1 for none."""
    typed = settle_types(counted, columns, options, text=text)
    parts = ["part"] if "part" in typed.column_names else []
    names = ["query_id", "doc_id", *columns.contexts, *parts]
    if names != keys.column_names:
        raise InputError(
            f"the counts are by {', '.join(keys.column_names)}, but the log is read by "
            f"{', '.join(names)}; read it with the options of the counts",
            code="options-differ",
        )
    return locate_rows(
        {name: typed[name].cast(keys[name].type) for name in names},
        {name: keys[name] for name in names},
    )


def check_same(
    counts: ClickCounts, entry: np.ndarray, displays: np.ndarray, clicks: np.ndarray, name: str
) -> None:
    """Refuse a log that does not match the counts: weights and clicks would not belong together."""
    size, known = len(counts.pair), entry >= 0
    differs = (np.bincount(entry[known], displays[known], size) != counts.displays) | (
        np.bincount(entry[known], clicks[known], size) != counts.clicks
    )
    if np.any(differs) or not np.all(known):
        raise InputError(
            f"{name} does not match these counts: {int(differs.sum()):,} of {size:,} entries have "
            f"other displays or clicks in it, {int(displays[~known].sum()):,} of its displays are "
            "in no entry. Score the counts of this log, read with the same options.",
            code="counts-differ-from-log",
        )

"""The pages behind some counts: which entries were shown together, in order, and which clicked.

Counts are enough for the probability of a click given the clicks above it. What is averaged over
those clicks, or holds of a page as a whole, needs the page.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array
from epiclick.data.counting import count_expression, row_rules
from epiclick.data.counts import ClickCounts
from epiclick.data.engine import engine_errors, stoppable
from epiclick.data.page_weights import check_same, entries_of, rows_of
from epiclick.data.pages import kept_rows
from epiclick.data.placement import positions_in
from epiclick.data.readers import open_log
from epiclick.data.schema import LogOptions

PAGE = "epiclick_page"


@dataclass(frozen=True, eq=False)
class ShownPages:
    """Pages as entries of some counts, in the order of positions.

    Attributes:
        entry: (pages, depth) index of the entry of the counts; -1 below the end of a page.
        clicked: (pages, depth) whether that display was clicked.
    """

    entry: np.ndarray
    clicked: np.ndarray

    @property
    def shown(self) -> np.ndarray:
        """(pages, depth) whether there is a display."""
        return self.entry >= 0


def read_pages(log: Any, options: LogOptions, counts: ClickCounts) -> ShownPages:
    """The pages that counts with parts were counted from.

    Displays of pairs that the counts lack, such as those without features, are left out.

    Args:
        log: anything `read_log` reads, with `page_id` and one row per display.
        options: how it was read.
        counts: the counts of some of its parts, by position.
    """
    assert counts.part is not None
    assert counts.parts is not None
    parts = pa.table({"part": counts.parts.take(np.unique(counts.part))})
    opened, rows, columns = open_log(log, options)
    rows = rows_of(kept_rows(rows, columns, options), parts, ["part"])
    by_page = replace(columns, contexts={**columns.contexts, PAGE: PAGE})
    rules = row_rules(rows, columns, options)
    with stoppable(opened.table), engine_errors(opened.name):
        # one row per display: the counting expression converts positions and ids as for counts
        expression = count_expression(rows.mutate(**{PAGE: rows.page_id}), by_page, options, rules)
        displays = expression.to_pyarrow()
        keys = counts.keys()
        entry = entries_of(displays, columns, options, keys, text=opened.text)
    known = entry >= 0
    clicks, amount = (displays[name].to_numpy() for name in ("clicks", "displays"))
    check_same(counts, entry[known], amount[known], clicks[known], opened.name)
    page = as_array(displays[PAGE]).dictionary_encode().indices.to_numpy()[known]
    return _arranged(counts, page, entry[known], clicks[known] > 0)


def _arranged(
    counts: ClickCounts, page: np.ndarray, entry: np.ndarray, clicked: np.ndarray
) -> ShownPages:
    """Displays in any order as rows of pages, by position."""
    place = positions_in(counts.contexts, counts.options)
    context = counts.context[entry]
    position = context if place is None else place[context]
    order = np.lexsort((position, page))
    page, entry, clicked = page[order], entry[order], clicked[order]
    first = np.flatnonzero(np.diff(page, prepend=-1))
    length = np.diff(np.r_[first, len(page)])
    row = np.repeat(np.arange(len(first)), length)
    slot = np.arange(len(page)) - np.repeat(first, length)
    shape = (len(first), int(length.max(initial=0)))
    entries, clicks = np.full(shape, -1), np.zeros(shape, bool)
    entries[row, slot], clicks[row, slot] = entry, clicked
    return ShownPages(entries, clicks)

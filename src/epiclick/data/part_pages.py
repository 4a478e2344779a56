"""Pages of each part of a log, such as a day, so that days can be dropped from counts later."""

from typing import TYPE_CHECKING

import numpy as np

from epiclick.data.arrays import locate_rows
from epiclick.data.ids import TIMESTAMP, settle_types
from epiclick.data.page_clicks import PageClicks, PartPages, least_level
from epiclick.data.pages import tallied
from epiclick.data.schema import LogColumns, LogOptions

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from epiclick.data.counts import ClickCounts


def read_part_pages(
    rows: "ir.Table", columns: LogColumns, options: LogOptions, counts: "ClickCounts", *, text: bool
) -> PartPages | None:
    """Number and clicks of the pages of each part of a log, whose counts are known.

    None if the parts are not those of the counts: whether they are days depends on all rows.
    """
    import ibis  # slow to import

    part = rows.part
    if part.type().is_string():  # rows of one page may differ in their time
        day = part.substr(0, len("2026-01-01"))
        rows = rows.mutate(part=ibis.ifelse(part.re_search(TIMESTAMP), day, part))
    numbers = rows.group_by("part").aggregate(pages=rows.page_id.nunique()).to_pyarrow()
    least = [least_level(pages, of_part=True) for pages in numbers["pages"].to_pylist()]
    tally, keys = tallied(rows, min(least), "part")

    def indices(table: "pa.Table") -> np.ndarray:
        assert counts.parts is not None
        own = settle_types(table, columns, options, text=text)["part"].cast(counts.parts.type)
        return locate_rows({"part": own}, {"part": counts.parts})

    of_numbers, of_tally = indices(numbers), indices(keys)
    if np.any(of_numbers < 0) or np.any(of_tally < 0):
        return None
    clicks = []
    for i, lowest in zip(of_numbers, least, strict=True):
        own = {name: column[of_tally == i] for name, column in tally.items()}
        clicks.append(PageClicks.from_table(**own, least=lowest))
    found = PartPages(numbers["pages"].to_numpy(), tuple(clicks))
    return found.at(np.argsort(of_numbers))

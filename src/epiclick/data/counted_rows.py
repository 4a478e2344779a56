"""Rows of a log that was counted, by the numbers that its counts give to pairs and contexts."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import Columns, locate_counted, locate_rows

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts


class CountedRows(NamedTuple):
    """Numbers of rows in the counts of their log; (rows,) each.

    Attributes:
        pair: of the counts.
        context: of the counts.
        part: of the counts, or None.
    """

    pair: np.ndarray
    context: np.ndarray
    part: np.ndarray | None


def counted_rows(rows: pa.Table, counts: "ClickCounts") -> CountedRows | None:
    """The numbers of rows whose columns have their final types.

    None if their parts are not those of the counts: whether parts are days depends on all rows of a
    log.
    """

    def own(among: Columns) -> Columns:
        return {name: rows[name].cast(among[name].type) for name in among}

    keys = {"query_id": counts.query_id, "doc_id": counts.doc_id}
    contexts = {name: counts.contexts[name] for name in counts.contexts.column_names}
    pair, context = locate_counted(own(keys), keys), locate_counted(own(contexts), contexts)
    if counts.parts is None:
        return CountedRows(pair, context, None)
    parts = {"part": counts.parts}
    part = locate_rows(own(parts), parts)
    return None if np.any(part < 0) else CountedRows(pair, context, part)

"""The context whose bias is 1, and against which relevance is measured."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError


def resolve_anchor(counts: ClickCounts, anchor: Any) -> int:
    """Index of the anchor among the contexts of the counts.

    Args:
        counts: the log.
        anchor: "auto", the first position (of the most displayed one where several contexts share
            it); or a context: its position, or the values of its columns as a tuple.
    """
    if isinstance(anchor, str) and anchor == "auto":
        return _first_position(counts)
    columns = counts.contexts.column_names
    values = tuple(anchor) if isinstance(anchor, tuple | list) else (anchor,)
    rows = [tuple(row.values()) for row in counts.contexts.to_pylist()]
    if len(values) == len(columns) and values in rows:
        return rows.index(values)
    shown = "; ".join(", ".join(map(str, row)) for row in rows[:10])
    raise InputError(
        f"anchor {anchor!r} is not a context of the log, whose columns are {', '.join(columns)}. "
        f"Choose one of: {shown}" + (" ..." if len(rows) > 10 else "")
    )


def _first_position(counts: ClickCounts) -> int:
    displays = np.bincount(counts.context, counts.displays, len(counts.contexts))
    if "position" not in counts.contexts.column_names:
        return int(np.argmax(displays))
    position = counts.contexts["position"]
    if not pa.types.is_integer(position.type):
        return int(np.argmax(displays))
    first = pc.equal(position, pc.min(position)).to_numpy()
    return int(np.argmax(np.where(first, displays, -1)))

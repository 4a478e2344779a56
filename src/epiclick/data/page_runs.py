"""Runs of rows with the same page_id: a proof, from one stream of rows, that no page repeats."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import changes


def ordered_runs(batches: Iterable[pa.RecordBatch], longest: int) -> tuple[int, bool] | None:
    """Number of runs, and whether page_id ascends; None unless each run follows the rules.

    If positions ascend within a run, none repeats, and the run has at most as many rows as there
    are positions. No document repeats if no two rows of a run that far apart agree.

    Args:
        batches: page_id, an integer position and a key of the document: an integer, the same for
            the same document. If different documents share a key, a valid run may be refused.
        longest: range of positions, first to last.
    """
    runs, ascending = 0, True
    before: list[pa.RecordBatch] = []
    for batch in batches:
        # the last rows of a batch may belong to the same run as the first rows of the next
        rows = pa.Table.from_batches([*before, batch]).combine_chunks()
        known = rows.num_rows - batch.num_rows
        if any(column.null_count for column in rows.columns):
            return None
        page, position, doc = (column.combine_chunks() for column in rows.columns)
        position, doc = position.to_numpy(), doc.to_numpy()
        new = changes(page)
        if np.any(~new[1:] & (position[1:] <= position[:-1])) or _repeats(doc, new, longest):
            return None
        runs += int(np.count_nonzero(new[known:]))
        ascending = ascending and pc.all(pc.less_equal(page[:-1], page[1:]), min_count=0).as_py()
        before = rows.slice(max(rows.num_rows - max(longest - 1, 1), 0)).to_batches()
    return runs, ascending


def _repeats(doc: np.ndarray, new: np.ndarray, longest: int) -> bool:
    """Whether a document repeats in a run; `new` is true where a run begins."""
    for lag in range(1, min(longest, len(doc))):
        (at,) = np.nonzero(doc[lag:] == doc[:-lag])
        if len(at):
            run = np.cumsum(new)
            if np.any(run[at] == run[at + lag]):
                return True
    return False

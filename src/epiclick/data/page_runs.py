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
    reach = max(longest - 1, 1)
    before = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if any(column.null_count for column in batch.columns):
            return None
        own = _new_runs(batch, longest)
        if own is None:
            return None
        starts, own_ascends = own
        if before is None:
            runs, before = 1, batch.slice(batch.num_rows, 0)
        else:
            # a run may go on from one batch to the next; copying only its rows saves time
            border = pa.concat_batches([before, batch.slice(0, reach)])
            of_border = _new_runs(border, longest)
            if of_border is None:
                return None
            runs += int(of_border[0][len(before)])
            own_ascends = own_ascends and of_border[1]
        runs += int(np.count_nonzero(starts[1:]))
        ascending = ascending and own_ascends
        tail = batch.slice(max(batch.num_rows - reach, 0))
        if len(tail) < reach:
            tail = pa.concat_batches([before, tail])
            tail = tail.slice(max(len(tail) - reach, 0))
        before = tail
    return runs, ascending


def _new_runs(rows: pa.RecordBatch, longest: int) -> tuple[np.ndarray, bool] | None:
    """Where runs begin, and whether page_id ascends; None if a run breaks the rules."""
    page = rows.column(0)
    position, doc = (rows.column(i).to_numpy() for i in (1, 2))
    if pa.types.is_integer(page.type):
        page = page.to_numpy()
        new = np.ones(len(page), bool)
        np.not_equal(page[1:], page[:-1], out=new[1:])
        ascends = not np.any(page[1:] < page[:-1])
    else:
        new = changes(page)
        ascends = pc.all(pc.less_equal(page[:-1], page[1:]), min_count=0).as_py()
    if np.any(~new[1:] & (position[1:] <= position[:-1])) or _repeats(doc, new, longest):
        return None
    return new, ascends


def _repeats(doc: np.ndarray, new: np.ndarray, longest: int) -> bool:
    """Whether a document repeats in a run; `new` is true where a run begins."""
    for lag in range(1, min(longest, len(doc))):
        (at,) = np.nonzero(doc[lag:] == doc[:-lag])
        if len(at):
            run = np.cumsum(new)
            if np.any(run[at] == run[at + lag]):
                return True
    return False

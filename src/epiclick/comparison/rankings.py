"""Rankings of rankers that are to be compared: which item each puts where."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from epiclick.comparison.order import Order, order_rows
from epiclick.comparison.ranking_rows import RankingRows, table_rows
from epiclick.comparison.scoring import scored_rows
from epiclick.comparison.trec import is_run, run_rows
from epiclick.data.arrays import as_array
from epiclick.data.features import FeatureTable
from epiclick.data.log import LogOptions
from epiclick.errors import InputError


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which item a ranker puts where, one row a slot, ordered by list, then position.

    Attributes:
        name: of the ranker.
        query_id: (slots,) query of each slot's list.
        doc_id: (slots,) the item.
        page: (slots,) int64, number of the list (0, 1, ...) each slot belongs to; a query may have
            several lists, told apart by page_id or by context columns such as a device.
        contexts: (slots rows) the context columns in the order asked for, `position` among them.
        notes: what a user must be told: ties broken, deeper positions cut, ...
    """

    name: str
    query_id: pa.Array
    doc_id: pa.Array
    page: np.ndarray  # (slots,)
    contexts: pa.Table
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of slots."""
        return len(self.page)

    @property
    def lists(self) -> int:
        """Number of lists."""
        return int(self.page[-1]) + 1 if len(self) else 0

    @property
    def list_query(self) -> pa.Array:
        """(lists,) query of each list."""
        return self.query_id.take(pa.array(np.flatnonzero(np.diff(self.page, prepend=-1))))


def read_ranking(
    source: Any,
    name: str,
    *,
    context: Sequence[str] = ("position",),
    ids: Literal["auto", "string", "integer"] | None = None,
    depth: int | None = None,
    features: FeatureTable | None = None,
) -> Ranking:
    """Read the ranking of one ranker.

    Args:
        source: a Parquet, CSV or JSON-lines file, a pandas DataFrame, an Arrow or Ibis table with
            `query_id`, `doc_id`, `position` (or, without it, `score`: the highest comes first),
            the context columns, and `page_id` where a query has several lists; two of these, the
            table and the name of its column of scores; a TREC run file; or a function that gives
            one score for each row of a DataFrame of features.
        name: of the ranker, for messages and answers.
        context: the model's context columns, `position` among them.
        ids: `auto` keeps ids as they come (text files: integers where all are); or force a type.
        depth: the last position kept; all by default.
        features: what a function scores; other sources need none.
    """
    if "position" not in context:
        raise InputError(
            f"context {', '.join(context)}: a ranking can be compared only by a model whose "
            "contexts have the position"
        )
    if depth is not None and depth < 1:
        raise InputError(f"depth must be 1 or more, not {depth}")
    options = LogOptions(context=tuple(context), ids=ids or "auto")
    try:
        rows = _rows(source, features, options)
        order = order_rows(rows)
    except InputError as error:
        raise InputError(f"ranking '{name}': {error}", error.problems) from error
    keep = slice(None) if depth is None else order.position <= depth
    row, page, position = order.row[keep], order.page[keep], order.position[keep]
    columns = {n: as_array(rows.keys[n]).take(pa.array(row)) for n in rows.keys.column_names}
    columns["position"] = pa.array(position)
    return Ranking(
        name=name,
        query_id=columns["query_id"],
        doc_id=columns["doc_id"],
        page=page,
        contexts=pa.table({column: columns[column] for column in context}),
        notes=(*rows.notes, *_notes(order, depth)),
    )


def _rows(source: Any, features: FeatureTable | None, options: LogOptions) -> RankingRows:
    """The rows of whatever holds a ranking."""
    if isinstance(source, tuple):
        table, score = source
        return table_rows(table, options, score)
    if is_run(source):
        return run_rows(source, options)
    if callable(source):
        return scored_rows(source, features, options)
    return table_rows(source, options)


def _notes(order: Order, depth: int | None) -> list[str]:
    """A word on ties among the slots that are kept, and on slots that are not."""
    slots = len(order.position)
    kept = np.ones(slots, bool) if depth is None else order.position <= depth
    notes = []
    if tied := int(order.tied[kept].sum()):
        notes.append(
            f"{tied:,} of {int(kept.sum()):,} slots hold a document whose score another one of its "
            "list shares; such ties were broken by doc_id"
        )
    if cut := slots - int(kept.sum()):
        notes.append(f"{cut:,} of {slots:,} slots are deeper than position {depth} and were cut")
    return notes

"""How often and how high the pairs of a log were shown, whatever was clicked there.

What a ranker knows about an item shows in where it puts it. Placement is therefore kept with the
counts even where they are reduced to some pairs, or to outcomes other than clicks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import distinct, locate_rows
from epiclick.data.schema import GRID, LogOptions

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

BANDS = np.array([1, 2, 3, 4, 6, 8, 12, 20, np.inf])
"""Last position of each band; positions of a band are not told apart."""


class Placement(NamedTuple):
    """Placement of pairs; (pairs,) each unless noted.

    Attributes:
        displays: (pairs, bands) how often the pair was shown in each of `BANDS`.
        pages: pages of its query; NaN where nothing is known about the query's pages.
        slots: items per page of its query.
    """

    displays: np.ndarray
    pages: np.ndarray
    slots: np.ndarray

    def at(self, pairs: np.ndarray | slice) -> "Placement":
        """That of some pairs."""
        return Placement(*(part[pairs] for part in self))

    @property
    def shown(self) -> np.ndarray:
        """(pairs,) whether the pair was ever shown."""
        return self.displays.sum(axis=1) > 0


def placement_of(counts: "ClickCounts") -> Placement:
    """Placement of the pairs of counts, from all of their displays."""
    given, index = counts.given
    band = np.zeros(len(given), int)  # without positions, all that is known is what was shown
    position = positions_in(given, counts.options)
    if position is not None:
        band = np.searchsorted(BANDS, np.maximum(position, 1))
    cell = counts.pair * len(BANDS) + band[index[counts.context]]
    size = len(counts) * len(BANDS)
    displays = np.bincount(cell, counts.displays, size).reshape(len(counts), len(BANDS))
    pages = pages_by_kind(counts).sum(axis=1)
    slots = displays_by_query(counts).sum(axis=1) / np.maximum(pages, 1)
    return Placement(displays.astype(np.float32), pages[counts.query], slots[counts.query])


def placement_in(counts: "ClickCounts", query_id: pa.Array, doc_id: pa.Array) -> Placement:
    """Placement in a log of any pairs: 0 displays for those that it never showed.

    Args:
        counts: of the log.
        query_id: (pairs,) of the pairs.
        doc_id: (pairs,) of the pairs.
    """
    known = counts.placed
    own = {"query_id": counts.query_id, "doc_id": counts.doc_id}
    pair = locate_rows({"query_id": query_id, "doc_id": doc_id}, own)
    first, query = _first_pairs(counts), query_in(counts, query_id)
    displays = np.concatenate([known.displays, np.zeros((1, len(BANDS)), np.float32)])[pair]
    pages, slots = (np.append(part[first], np.nan)[query] for part in (known.pages, known.slots))
    return Placement(displays, pages, slots)


def query_in(counts: "ClickCounts", query_id: pa.Array) -> np.ndarray:
    """Number of each query id in the counts; -1 where they have none of its pages."""
    own = counts.query_id.take(pa.array(_first_pairs(counts)))
    return locate_rows({"query_id": query_id}, {"query_id": own})


def _first_pairs(counts: "ClickCounts") -> np.ndarray:
    """(queries,) the first pair of each query."""
    return np.flatnonzero(np.diff(counts.query, prepend=-1))


def pages_by_kind(counts: "ClickCounts") -> np.ndarray:
    """(queries, kinds) pages of each query, by kind of list (see `kinds_of`).

    A page shows one item per position, so a query has as many pages as displays at the position
    that it displays most often.
    """
    given, _ = counts.given
    kinds, kind = kinds_of(given, counts.options.slot)
    displays = displays_by_query(counts)
    pages = np.zeros((counts.num_queries, len(kinds)))
    for context in range(len(given)):
        own = pages[:, kind[context]]
        np.maximum(own, displays[:, context], out=own)
    return pages


def displays_by_query(counts: "ClickCounts") -> np.ndarray:
    """(queries, given contexts) displays of each query."""
    given, index = counts.given
    cell = counts.query[counts.pair] * len(given) + index[counts.context]
    size = counts.num_queries * len(given)
    return np.bincount(cell, counts.displays, size).reshape(counts.num_queries, len(given))


def kinds_of(
    contexts: pa.Table, slot: Sequence[str] = ("position",)
) -> tuple[pa.Table, np.ndarray]:
    """The distinct contexts without their slot, and the number of each context's own.

    Args:
        contexts: a row each.
        slot: columns that determine where on the page a context is (`LogOptions.slot`).
    """
    others: Mapping[str, pa.Array] = {
        name: contexts[name].combine_chunks() for name in contexts.column_names if name not in slot
    }
    if not others:
        return pa.table({"": pa.array([0])}).drop_columns(""), np.zeros(len(contexts), int)
    return distinct(others)


def positions_in(contexts: pa.Table, options: LogOptions) -> np.ndarray | None:
    """(contexts,) position on the page, in a grid from left to right; None if it is not known."""
    if "position" in contexts.column_names:
        own = contexts["position"]
        return np.asarray(own) if pa.types.is_integer(own.type) else None
    if options.grid is None or not set(GRID) <= set(contexts.column_names):
        return None
    row, column = (np.asarray(contexts[name], np.int64) for name in GRID)
    position: np.ndarray = (row - 1) * options.grid + column
    return position

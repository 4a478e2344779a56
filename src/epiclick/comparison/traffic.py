"""How often each query is asked, and how often its slots are seen at all, by a log."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import distinct
from epiclick.data.counts import ClickCounts
from epiclick.models.fitted import FittedModel, given_of
from epiclick.models.prediction import given_contexts_of


@dataclass(frozen=True, eq=False)
class Traffic:
    """Pages of a log, by what lists are told apart by: the query, and contexts but the position.

    Contexts are given ones: what was clicked above a slot decides neither pages nor reach.

    Attributes:
        keys: query_id and those contexts, a row for each kind of list.
        pages: (kinds,) pages of each.
        reach: (model's given contexts,) share of the pages of its kind that displayed each context.
    """

    keys: pa.Table
    pages: np.ndarray
    reach: np.ndarray

    @property
    def total(self) -> float:
        """Pages of the log."""
        return float(self.pages.sum())


def traffic_of(fitted: FittedModel, counts: ClickCounts) -> Traffic:
    """Traffic of a log.

    A page shows one item at a position, so that a query has as many pages as displays at the
    position that it displays most often.
    """
    counts = counts.by_given()
    index = given_contexts_of(fitted, counts.contexts)
    kinds, kind = kinds_of(counts.contexts)
    contexts, queries = len(counts.contexts), counts.num_queries
    query = counts.query[counts.pair]
    displays = np.bincount(
        query * contexts + counts.context, counts.displays, queries * contexts
    ).reshape(queries, contexts)
    pages = np.zeros((queries, len(kinds)))
    for context in range(contexts):
        own = pages[:, kind[context]]
        np.maximum(own, displays[:, context], out=own)
    row, column = np.nonzero(pages)
    first = np.flatnonzero(np.diff(counts.query, prepend=-1))
    keys = {"query_id": counts.query_id.take(pa.array(first[row]))}
    keys |= {
        name: kinds[name].combine_chunks().take(pa.array(column)) for name in kinds.column_names
    }
    share = displays.sum(axis=0) / np.maximum(pages.sum(axis=0)[kind], 1)
    reach = np.zeros(len(given_of(fitted)[0]))
    reach[index[index >= 0]] = share[index >= 0]
    return Traffic(pa.table(keys), pages[row, column], reach)


def kinds_of(contexts: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """The distinct contexts but for their position, and which of these each context is of."""
    others: Mapping[str, pa.Array] = {
        name: contexts[name].combine_chunks()
        for name in contexts.column_names
        if name != "position"
    }
    if not others:
        return pa.table({"": pa.array([0])}).drop_columns(""), np.zeros(len(contexts), int)
    return distinct(others)

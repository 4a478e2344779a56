"""The order of documents within lists: by positions that are checked, or by scores."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.comparison.flaws import ListFlaws, bad_values, missing_keys
from epiclick.comparison.ranking_rows import RankingRows
from epiclick.data.arrays import as_array, distinct
from epiclick.errors import InputError, Problem


@dataclass(frozen=True, eq=False)
class Order:
    """Rows put in the order of lists and positions.

    Attributes:
        row: (slots,) row of the source that fills each slot.
        page: (slots,) number of the list of each slot.
        position: (slots,) 1, 2, ... within each list.
        tied: (slots,) another document of the list has the same score.
    """

    row: np.ndarray
    page: np.ndarray
    position: np.ndarray
    tied: np.ndarray


def order_rows(rows: RankingRows) -> Order:
    """Put the rows in order; all that is wrong with them is told at once.

    Lists are ordered by query, then by what tells the lists of a query apart, so that the order of
    the source's rows does not matter.
    """
    if not len(rows.value):
        raise InputError.of(rows.source, [*rows.problems, Problem("the ranking is empty")])
    problems = [*rows.problems, *missing_keys(rows), *bad_values(rows)]
    complete = np.ones(len(rows.value), bool)
    for column in rows.keys.columns:
        complete &= column.is_valid().to_numpy()
    keys = rows.keys if complete.all() else rows.keys.filter(pa.array(complete))
    columns = {name: as_array(keys[name]) for name in keys.column_names}
    doc = columns.pop("doc_id")
    docs, doc_code = distinct({"doc_id": doc})
    lists, page = distinct(columns)
    value = rows.value[complete]
    twice = pd.Series(page * len(docs) + doc_code).duplicated().to_numpy()
    unnumbered = rows.by == "position" and not (problems or is_numbered(page, value))
    if problems or unnumbered or twice.any():
        frame = pd.DataFrame({"page": page, "doc": doc_code, "value": value})
        told = ListFlaws(frame, lists, docs, gaps=bool(complete.all()) and not rows.problems)
        problems += told.repeated_documents(twice)
        if rows.by == "position":
            problems += [*told.shared_positions(), *told.gaps_in_lists()]
        raise InputError.of(rows.source, problems)

    length = np.bincount(page)
    start = np.cumsum(length) - length
    if rows.by == "position":
        row = np.empty(len(value), np.int64)
        row[start[page] + value.astype(np.int64) - 1] = np.arange(len(value))
        tied = np.zeros(len(value), bool)
    else:
        row = np.lexsort((doc_code, -value, page))
        tied = _equal_neighbours(page[row], value[row])
    page = page[row]
    return Order(row, page, np.arange(len(row)) - start[page] + 1, tied)


def is_numbered(page: np.ndarray, position: np.ndarray) -> bool:
    """Whether the rows of each list have the positions 1, 2, ..., each once, in any order.

    >>> is_numbered(np.array([0, 1, 0]), np.array([2, 1, 1]))
    True
    """
    length = np.bincount(page)
    if np.any((position < 1) | (position > length[page])):
        return False
    slot = (np.cumsum(length) - length)[page] + position.astype(np.int64) - 1
    return bool(np.all(np.bincount(slot, minlength=len(page)) == 1))


def _equal_neighbours(page: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Where the row before or after in the same list has the same score."""
    tied = np.zeros(len(page), bool)
    same = (np.diff(page) == 0) & (np.diff(score) == 0)
    tied[1:] |= same
    tied[:-1] |= same
    return tied
